"""Controllers of several kinds, and with kinds that may be missing."""

import unittest

from pilothouse import (
    ObjectRef,
    Outcome,
    Read,
    Retry,
    Selection,
    Terminal,
    Write,
    keeps_children,
)
from pilothouse.testing import FakeCluster
from things import CONFIG_MAP, EVERY_VERB, MEMBER, POD, TEAM, made, thing


def done(_request, _host):
    return Outcome()


class Kinds(unittest.TestCase):
    def test_a_manifest_says_which_kinds_are_reconciled_and_which_are_optional(self):
        plugin = made(
            done,
            reconciles=[Selection(POD), Selection(TEAM, optional=True)],
            reads=[Read(POD), Read(TEAM, optional=True)],
        )
        document = plugin.manifest.to_document()
        kinds = [{"kind": POD}, {"kind": TEAM, "optional": True}]
        self.assertEqual((document["reconciles"], document["reads"]), (kinds, kinds))

    def test_a_read_of_what_is_selected_is_narrowed_as_the_selection_is(self):
        narrow = {
            "labels": "a=b,!c",
            "field_selector": "type=Opaque",
            "namespaces": ["default"],
            "optional": True,
        }
        selection = Selection("v1/Secret", **narrow)
        self.assertEqual(selection.read([".data"]), Read("v1/Secret", [".data"], **narrow))
        plugin = made(done, reconciles=selection, reads=[selection.read()])
        document = plugin.manifest.to_document()
        self.assertEqual(document["reads"], document["reconciles"])


def notes(request, host):
    """Keeps a note of each object, and fails for one that has nothing to say."""
    if request.object is None:
        return Outcome().children([])
    if "say" not in request.object.get("spec", {}):
        raise Retry("nothing to say")
    name = f"{request.key.kind.rpartition('/')[2].lower()}-{request.key.name}"
    return Outcome().children([thing(CONFIG_MAP, name, data=request.object["spec"])])


class SeveralKinds(unittest.TestCase):
    def cluster(self, *objects):
        plugin = made(
            notes,
            reconciles=[Selection(TEAM), Selection(POD, labels="noted")],
            reads=[TEAM, POD, CONFIG_MAP],
            writes=[keeps_children(CONFIG_MAP)],
        )
        return FakeCluster(plugin, *objects)

    def said(self, cluster, name):
        note = cluster.object(CONFIG_MAP, "default", name)
        return note and note["data"]["say"]

    def kinds(self, runs):
        """The kinds of the keys that ran. Its own children run a key once more."""
        self.assertTrue(all(run.error is None for run in runs), runs)
        return {run.key.kind for run in runs}

    def test_keys_of_two_kinds_are_run_and_cleaned_up_each_by_itself(self):
        noted = {"labels": {"noted": "true"}, "spec": {"say": "pod"}}
        cluster = self.cluster(thing(TEAM, "a", spec={"say": "team"}), thing(POD, "a", **noted))
        self.assertEqual(self.kinds(cluster.run_due()), {TEAM, POD})
        self.assertEqual(self.said(cluster, "team-a"), "team")
        self.assertEqual(self.said(cluster, "pod-a"), "pod")
        cluster.delete(TEAM, "default", "a")
        self.assertEqual(self.kinds(cluster.run_due()), {TEAM})
        self.assertIsNone(self.said(cluster, "team-a"))
        self.assertEqual(self.said(cluster, "pod-a"), "pod")

    def test_a_child_leads_back_to_the_key_of_the_kind_that_made_it(self):
        noted = {"labels": {"noted": "true"}, "spec": {"say": "pod"}}
        cluster = self.cluster(thing(POD, "a", **noted))
        cluster.run_due()
        cluster = self.cluster(cluster.object(CONFIG_MAP, "default", "pod-a"))
        self.assertEqual(self.kinds(cluster.run_due()), {POD})
        self.assertIsNone(self.said(cluster, "pod-a"))

    def test_a_key_of_a_kind_is_run_alone_and_has_its_own_attempts(self):
        noted = {"labels": {"noted": "true"}, "spec": {"say": "pod"}}
        cluster = self.cluster(thing(TEAM, "a"), thing(POD, "a", **noted))
        with self.assertRaisesRegex(Retry, "nothing to say"):
            cluster.turn("default", "a", kind=TEAM)
        cluster.reconcile("default", "a", kind=POD)
        self.assertEqual(cluster.write()[0].object.name, "pod-a")
        self.assertIsNone(self.said(cluster, "team-a"))
        cluster.add(thing(TEAM, "a", spec={"say": "team"}))
        cluster.turn("default", "a", kind=TEAM)
        self.assertEqual(self.said(cluster, "team-a"), "team")

    def test_the_kind_of_a_key_must_be_said_and_be_reconciled(self):
        cluster = self.cluster()
        with self.assertRaisesRegex(ValueError, "say the kind of the key with kind="):
            cluster.reconcile("default", "a")
        with self.assertRaisesRegex(ValueError, "does not name v1/ConfigMap"):
            cluster.turn("default", "a", kind=CONFIG_MAP)


def counts(request, host):
    """Writes how many Teams there are, and makes one that says that they are counted."""
    if request.object is None:
        return Outcome()
    teams = len(host.list(TEAM))
    own = thing(CONFIG_MAP, request.key.name, data={"teams": str(teams)})
    del own["metadata"]["labels"]
    return Outcome().apply(own).apply(thing(TEAM, "counted"))


class OptionalKinds(unittest.TestCase):
    def setUp(self):
        plugin = made(
            counts,
            reconciles=[Selection(CONFIG_MAP), Selection(MEMBER, optional=True)],
            reads=[CONFIG_MAP, Read(TEAM, optional=True), Read(MEMBER, optional=True)],
            writes=[Write(CONFIG_MAP, ["apply"]), Write(TEAM, EVERY_VERB, optional=True)],
        )
        self.cluster = FakeCluster(plugin, thing(CONFIG_MAP, "a"))

    def teams(self):
        return self.cluster.object(CONFIG_MAP, "default", "a").get("data", {}).get("teams")

    def test_without_an_optional_kind_reads_find_nothing_and_writes_fail(self):
        self.cluster.without(TEAM)
        run = self.cluster.run_due()[0]
        wanted = f"action 2: {TEAM} is optional, and the cluster does not serve it"
        self.assertEqual(run.error, wanted)
        self.assertEqual([effect.result for effect in run.effects], ["done", "not-found"])
        self.assertEqual(self.teams(), "0", "the other write is done")
        self.cluster.serving(TEAM)
        self.assertTrue(all(run.error is None for run in self.cluster.run_due()))
        self.assertEqual(self.teams(), "1", "its own one is there")
        self.cluster.without(TEAM)
        self.cluster.run_due()
        self.assertEqual(self.teams(), "0")

    def test_every_write_to_a_kind_that_is_not_served_fails_as_to_what_is_not_there(self):
        team = ObjectRef(TEAM, "default", "a")
        outcome = (
            Outcome()
            .apply(thing(TEAM, "a"))
            .create(thing(TEAM, "b"))
            .update(thing(TEAM, "c"))
            .patch(team.named("d"), {})
            .delete(team.named("e"))
            .finalizer(team.named("f"), "example.com/f", True)
            .event(team.named("g"), reason="Made", action="Make", note="")
        )
        writes = [Write(TEAM, EVERY_VERB, optional=True)]
        reads = [Read(TEAM, optional=True)]
        plugin = made(lambda *_: outcome, singleton=True, reads=reads, writes=writes)
        cluster = FakeCluster(plugin)
        cluster.without(TEAM)
        cluster.reconcile()
        results = [effect.result for effect in cluster.write()]
        # After a create that has failed, nothing else is created; here there is no other.
        self.assertEqual(results, ["not-found"] * 7)
        outcome.delete(ObjectRef("v1/Secret", "default", "a"))
        with self.assertRaisesRegex(Terminal, "is not among the manifest's writes"):
            cluster.reconcile()

    def test_keys_of_a_kind_that_is_not_served_do_not_run(self):
        self.cluster.add(thing(MEMBER, "m"))
        ran = {run.key.kind for run in self.cluster.run_due()}
        self.assertEqual(ran, {CONFIG_MAP, MEMBER})
        self.cluster.add(thing(MEMBER, "n"))
        self.cluster.without(MEMBER)
        self.assertEqual({run.key.kind for run in self.cluster.run_due()}, {CONFIG_MAP})
        self.cluster.serving(MEMBER)
        ran = {run.key.kind for run in self.cluster.run_due()}
        self.assertEqual(ran, {CONFIG_MAP, MEMBER})

    def test_a_kind_that_is_not_optional_is_always_served(self):
        with self.assertRaisesRegex(ValueError, "does not say that v1/ConfigMap is optional"):
            self.cluster.without(CONFIG_MAP)


if __name__ == "__main__":
    unittest.main()
