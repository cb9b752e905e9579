"""Controllers that read every kind."""

import unittest

from pilothouse import Index, ObjectRef, Outcome, Read, Selection, Write
from pilothouse.testing import FakeCluster
from things import CONFIG_MAP, POD, TEAM, asking, made, thing

DEPLOYMENT = "apps/v1/Deployment"


def sweep(request, host):
    """Deletes whatever is labelled with the name of a Team that is gone."""
    outcome = Outcome()
    if request.object is None:
        for each in host.list("*", index=("team", request.key.name)):
            metadata = each["metadata"]
            kind = f"{each['apiVersion']}/{each['kind']}"
            outcome.delete(ObjectRef(kind, metadata.get("namespace", ""), metadata["name"]))
    return outcome


def of(team):
    return {"labels": {"team": team}}


class Patterns(unittest.TestCase):
    def sweeper(self, *objects):
        plugin = made(
            sweep,
            reconciles=Selection(TEAM),
            reads=[Read(TEAM, [".spec"]), Read("*", [".metadata.labels"])],
            indexes=[Index("team", "*", [".metadata.labels.team"])],
            writes=[Write("*", ["delete"])],
        )
        return FakeCluster(plugin, *objects)

    def test_a_pattern_finds_objects_of_every_kind_and_of_one_that_comes_later(self):
        cluster = self.sweeper(
            thing(TEAM, "a"),
            thing(CONFIG_MAP, "one", **of("a")),
            thing(DEPLOYMENT, "two", **of("a")),
            thing(DEPLOYMENT, "other", **of("b")),
        )
        cluster.run_due()
        cluster.delete(TEAM, "default", "a")
        cluster.run_due()
        self.assertIsNone(cluster.object(CONFIG_MAP, "default", "one"))
        self.assertIsNone(cluster.object(DEPLOYMENT, "default", "two"))
        self.assertIsNotNone(cluster.object(DEPLOYMENT, "default", "other"))
        cluster.add(thing("later.com/v1/Thing", "late", **of("a")))
        cluster.run_due()
        self.assertIsNone(cluster.object("later.com/v1/Thing", "default", "late"))

    def test_a_pattern_that_is_reconciled_has_the_keys_of_its_kinds_but_for_exceptions(self):
        def label(request, host):
            outcome = Outcome()
            if request.object is not None:
                seen.append(f"{request.key.kind}/{request.key.name}")
                patch = {"metadata": {"labels": {"seen": "yes"}}}
                outcome.patch(request.key, patch)
            return outcome

        seen = []
        plugin = made(
            label,
            reconciles=Selection("*", labels="label"),
            reads=[Read("*", [".metadata.labels"], except_=[DEPLOYMENT])],
            writes=[Write("*", ["patch"])],
        )
        wanted = {"labels": {"label": "yes"}}
        cluster = FakeCluster(
            plugin,
            thing(CONFIG_MAP, "a", **wanted),
            thing(CONFIG_MAP, "b"),
            thing(DEPLOYMENT, "a", **wanted),
            thing(TEAM, "a", **wanted),
        )
        cluster.run_due()
        self.assertEqual(sorted(set(seen)), [f"{TEAM}/a", f"{CONFIG_MAP}/a"])
        for kind, has in [(CONFIG_MAP, True), (DEPLOYMENT, False), (TEAM, True)]:
            labels = cluster.object(kind, "default", "a")["metadata"]["labels"]
            self.assertEqual("seen" in labels, has)
        seen.clear()
        cluster.run_due()
        self.assertEqual(seen, [])
        with self.assertRaisesRegex(ValueError, "does not name apps/v1/Deployment"):
            cluster.reconcile("default", "a", kind=DEPLOYMENT)

    def test_pages_of_a_pattern_are_ordered_by_kind_first(self):
        def pages(host):
            found = [each for page in host.pages("*", size=1) for each in page]
            return [f"{each['kind']}/{each['metadata']['name']}" for each in found]

        objects = [thing(DEPLOYMENT, "a"), thing(POD, "b"), thing(POD, "a"), thing(TEAM, "a")]
        reads = [Read("*", [".metadata.labels"])]
        wanted = ["Pod/a", "Pod/b", "Deployment/a", "Team/a"]
        self.assertEqual(asking(pages, *objects, reads=reads), wanted)

    def test_the_kinds_are_those_of_the_objects_that_are_there(self):
        objects = [thing("v1/Node", "n", namespace=""), thing(DEPLOYMENT, "a")]
        reads = [Read("*", [".metadata.labels"])]
        found = asking(lambda host: host.kinds("*"), *objects, reads=reads)
        kinds = [(each.kind, each.resource, each.namespaced) for each in found]
        wanted = [("v1/Node", "nodes", False), (DEPLOYMENT, "deployments", True)]
        self.assertEqual([each.versions for each in found], [["v1"], ["v1"]])
        self.assertEqual(kinds, wanted)
        found = asking(lambda host: host.kinds("apps/*"), *objects, reads=reads)
        self.assertEqual([each.kind for each in found], [DEPLOYMENT])

    def test_a_key_that_has_asked_for_kinds_runs_when_one_comes_or_goes(self):
        runs = []

        def count(_request, host):
            runs.append([each.kind for each in host.kinds("*")])
            return Outcome()

        reads = [Read("*", [".metadata.labels"])]
        cluster = FakeCluster(made(count, singleton=True, reads=reads), thing(POD, "a"))
        cluster.run_due()
        cluster.add(thing(POD, "b"))
        cluster.run_due()
        cluster.add(thing(TEAM, "a"))
        cluster.run_due()
        cluster.delete(TEAM, "default", "a")
        cluster.run_due()
        # The fake cluster runs each reconcile twice and compares.
        self.assertEqual(runs[::2], [[POD], [POD, TEAM], [POD]])
