"""What an outcome has confirmed, in the fake cluster."""

import unittest

from pilothouse import Index, ObjectRef, Outcome, Read, Terminal, Write
from pilothouse.testing import FakeCluster, Run, RunEnded

from things import CONFIG_MAP, POD, made, thing

CLAIM = "v1/PersistentVolumeClaim"


def tidies(request, host):
    """Deletes a claim that no Pod uses."""
    key, users = request.key, ("claim", request.key.name)
    if request.object is None or host.list(POD, key.namespace, index=users):
        return Outcome()
    outcome = Outcome().delete(key).remember("deleted")
    return outcome.confirm(key).confirm_list(POD, key.namespace, index=users)


def pod(claim):
    return thing(POD, "p", spec={"volumes": [{"claim": claim}]})


class Confirm(unittest.TestCase):
    def setUp(self):
        self.cluster = self.tidying(thing(CLAIM, "a"))
        self.key = ObjectRef(CLAIM, "default", "a")

    def tidying(self, *objects):
        tidying = made(
            tidies,
            reconciles=CLAIM,
            reads=[Read(CLAIM, [".metadata.labels"]), Read(POD, [".spec.volumes"])],
            indexes=[Index("claim", POD, [".spec.volumes[*].claim"])],
            writes=[Write(CLAIM, ["delete"])],
        )
        return FakeCluster(tidying, *objects)

    def is_there(self):
        return self.cluster.object(*self.key) is not None

    def test_what_the_server_confirms_is_done(self):
        self.cluster.add_unseen(pod("another"))
        self.cluster.run_due()
        self.assertFalse(self.is_there())

    def test_what_the_server_contradicts_is_not_done_and_the_key_runs_again(self):
        self.cluster.add_unseen(pod("a"))
        self.assertEqual(self.cluster.run_due(), [Run(self.key), Run(self.key)])
        self.assertTrue(self.is_there())
        self.cluster.delete(POD, "default", "p")
        self.cluster.run_due()
        self.assertFalse(self.is_there())

    def test_another_object_of_the_same_name_is_a_contradiction(self):
        other = thing(CLAIM, "a")
        other["metadata"]["uid"] = "another"
        self.cluster.add_unseen(other)
        self.cluster.reconcile("default", "a")
        self.assertEqual(self.cluster.write(), [])
        self.assertTrue(self.is_there())

    def test_an_object_that_is_being_deleted_is_a_contradiction(self):
        ending = thing(CLAIM, "a")
        ending["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/f"]}
        self.cluster.add_unseen(ending)
        self.cluster.reconcile("default", "a")
        self.assertEqual(self.cluster.write(), [])

    def test_a_change_of_the_content_is_no_contradiction(self):
        def labels(request, host):
            outcome = Outcome().apply(thing(CONFIG_MAP, "b"))
            return outcome.confirm(ObjectRef(CONFIG_MAP, "default", "a"))

        writes = [Write(CONFIG_MAP, ["apply"])]
        labelling = made(labels, singleton=True, reads=[CONFIG_MAP], writes=writes)
        cluster = FakeCluster(labelling, thing(CONFIG_MAP, "a"))
        cluster.add_unseen(thing(CONFIG_MAP, "a", data={"x": "y"}))
        cluster.turn()
        self.assertIsNotNone(cluster.object(CONFIG_MAP, "default", "b"))

    def test_a_contradiction_leaves_the_memo_and_the_effects(self):
        seen = []

        def applies(request, host):
            seen.append((request.memo, len(request.previous), request.attempt))
            number = (request.memo or 0) + 1
            body = thing(CONFIG_MAP, "b", data={"n": str(number)})
            event = ObjectRef(CONFIG_MAP, "default", "b")
            outcome = Outcome().apply(body).remember(number).confirm_list(POD)
            return outcome if number == 1 else outcome.event(event, "R", "A", "n")

        writes = [Write(CONFIG_MAP, ["apply"])]
        applying = made(applies, singleton=True, reads=[POD, CONFIG_MAP], writes=writes)
        cluster = FakeCluster(applying)
        cluster.turn()
        cluster.add_unseen(pod("a"))
        cluster.turn()
        cluster.turn()
        cluster.reconcile()
        # Each reconcile runs twice. The second turn was contradicted.
        self.assertEqual(seen[::2], [(None, 0, 1), (1, 1, 1), (1, 1, 1), (2, 2, 1)])

    def test_what_writes_nothing_asks_nothing(self):
        def looks(request, host):
            return Outcome().confirm_list(POD)

        cluster = FakeCluster(made(looks, singleton=True, reads=[POD]))
        cluster.add_unseen(pod("a"))
        self.assertEqual(cluster.run_due(), [Run(None)])

    def test_what_no_watch_has_brought_is_seen_with_the_next_change_of_its_kind(self):
        seen = []

        def looks(request, host):
            seen.append([each["metadata"]["name"] for each in host.list(POD)])
            return Outcome()

        cluster = FakeCluster(made(looks, singleton=True, reads=[POD, CONFIG_MAP]))
        cluster.add_unseen(thing(POD, "a"))
        cluster.run_due()
        cluster.add(thing(CONFIG_MAP, "x"))
        self.assertEqual(cluster.run_due(), [])
        cluster.add(thing(POD, "b"))
        cluster.run_due()
        # Each reconcile runs twice.
        self.assertEqual(seen[::2], [[], ["a", "b"]])

    def test_what_an_object_says_is_confirmed_where_that_is_asked_for(self):
        def reconcile(request, host):
            outcome = Outcome().apply(thing(CONFIG_MAP, "made"))
            return outcome.confirm_unchanged(ObjectRef(CLAIM, "default", "a"))

        for labels, is_done in [({"a": "b"}, True), ({"a": "c"}, False)]:
            plugin = made(
                reconcile,
                singleton=True,
                reads=[Read(CLAIM, [".metadata.labels"])],
                writes=[Write(CONFIG_MAP, ["apply"])],
            )
            known = thing(CLAIM, "a", labels={"a": "b"})
            known["metadata"]["uid"] = "u"
            cluster = FakeCluster(plugin, known)
            unseen = thing(CLAIM, "a", labels=labels, spec={"other": 1})
            unseen["metadata"]["uid"] = "u"
            cluster.add_unseen(unseen)
            cluster.reconcile()
            cluster.write()
            made_one = cluster.object(CONFIG_MAP, "default", "made")
            self.assertEqual(made_one is not None, is_done, labels)

    def test_what_the_plugin_does_not_read_cannot_be_confirmed(self):
        def asks(request, host):
            return Outcome().confirm_list(POD).confirm(ObjectRef(CONFIG_MAP, "default", "a"))

        message = "confirmation 2: denied: v1/ConfigMap is not among the manifest's reads"
        with self.assertRaisesRegex(Terminal, message):
            FakeCluster(made(asks, singleton=True, reads=[POD])).reconcile()

    def test_a_question_counts_as_a_read(self):
        def asks(request, host):
            return Outcome().confirm(ObjectRef(POD, "default", "p"))

        cluster = FakeCluster(made(asks, singleton=True, reads=[POD]))
        cluster.run_due()
        cluster.add(pod("a"))
        self.assertEqual(cluster.run_due(), [Run(None)])

    def test_too_many_questions_or_objects_are_refused(self):
        for asks, objects, message in (
            (101, 0, "101 questions to confirm; an outcome has at most 100"),
            (3, 2_000, "6000 objects to confirm; an outcome has at most 5000"),
        ):

            def reconcile(request, host):
                outcome = Outcome()
                for _ in range(asks):
                    outcome.confirm_list(POD)
                return outcome

            pods = [thing(POD, f"p{number}") for number in range(objects)]
            with self.assertRaisesRegex(Terminal, message):
                FakeCluster(made(reconcile, singleton=True, reads=[POD]), *pods).reconcile()

    def test_a_question_that_is_none_ends_the_run(self):
        def asks(request, host):
            return Outcome().confirm_list(POD, labels="a=b,,")

        with self.assertRaisesRegex(RunEnded, "label selector"):
            FakeCluster(made(asks, singleton=True, reads=[POD])).reconcile()
        with self.assertRaisesRegex(TypeError, "not an ObjectRef"):
            Outcome().confirm("v1/Pod")


if __name__ == "__main__":
    unittest.main()
