"""An outcome that says that it is settled is followed by no run, and has to tell the truth."""

import unittest

from pilothouse import Outcome, Write
from pilothouse.testing import FakeCluster

from things import made, thing

GOAL = "example.com/v1/Goal"
COUNTER = "example.com/v1/Counter"


def counts(request, host):
    """Brings a counter to its goal, at once or, above ten, in steps."""
    if request.object is None:
        return Outcome()
    outcome = Outcome().settled()
    to = request.object["spec"]["to"]
    counter = host.get(*request.key.of_kind(COUNTER))
    if counter is None:
        return outcome.create(thing(COUNTER, "a", spec={"to": min(to, 10)}))
    at = counter["spec"]["to"]
    if at == to:
        return outcome
    counter["spec"]["to"] = min(to, at + 10)
    return outcome.update(counter)


class Settled(unittest.TestCase):
    def cluster(self, to, *objects):
        counting = made(
            counts,
            reconciles=GOAL,
            reads=[GOAL, COUNTER],
            writes=[Write(COUNTER, ["create", "update"])],
        )
        return FakeCluster(counting, thing(GOAL, "a", spec={"to": to}), *objects)

    def test_a_settled_key_runs_for_what_others_write_and_not_for_its_own_writes(self):
        cluster = self.cluster(7)
        self.assertEqual(len(cluster.run_due()), 1)
        cluster.add(thing(GOAL, "a", spec={"to": 8}))
        self.assertEqual(len(cluster.run_due()), 1)
        cluster.add(thing(COUNTER, "a", spec={"to": 3}))
        self.assertEqual(len(cluster.run_due()), 1)
        self.assertEqual(cluster.object(COUNTER, "default", "a")["spec"]["to"], 8)
        self.assertEqual(cluster.run_due(), [])

    def test_a_settled_outcome_with_a_failed_write_is_tried_again(self):
        cluster = self.cluster(7, thing(COUNTER, "a", spec={"to": 3}))
        cluster.fail("update", COUNTER, "answer-lost")
        runs = cluster.run_due()
        self.assertIsNotNone(runs[0].error)
        self.assertEqual(cluster.object(COUNTER, "default", "a")["spec"]["to"], 7)

    def test_an_apply_is_settled_if_it_is_of_one_version(self):
        def copying(is_of_version):
            def copies(request, host):
                wanted = thing(COUNTER, "a", spec=request.object["spec"])
                counter = host.get(*request.key.of_kind(COUNTER))
                if counter and counter["spec"] == wanted["spec"]:
                    return Outcome()
                if counter and is_of_version:
                    version = counter["metadata"]["resourceVersion"]
                    wanted["metadata"]["resourceVersion"] = version
                return Outcome().settled().apply(wanted)

            writes = [Write(COUNTER, ["apply"])]
            return made(copies, reconciles=GOAL, reads=[GOAL, COUNTER], writes=writes)

        for is_of_version, runs in ((True, 1), (False, 2)):
            cluster = FakeCluster(copying(is_of_version), thing(GOAL, "a", spec={"to": 7}))
            cluster.run_due()
            cluster.add(thing(GOAL, "a", spec={"to": 8}))
            self.assertEqual(len(cluster.run_due()), runs)
            self.assertEqual(cluster.object(COUNTER, "default", "a")["spec"]["to"], 8)

    def test_an_outcome_is_not_held_to_what_others_change_after_it_was_decided(self):
        cluster = self.cluster(7)
        cluster.reconcile("default", "a")
        cluster.add(thing(GOAL, "a", spec={"to": 8}))
        cluster.write()
        cluster = self.cluster(7, thing(COUNTER, "a", spec={"to": 3}))
        cluster.add_unseen(thing(GOAL, "a", spec={"to": 8}), thing(COUNTER, "b"))
        cluster.turn("default", "a")

    def test_an_outcome_whose_next_run_would_read_more_or_at_another_time_is_not_settled(self):
        def looks_later(request, host):
            if host.get(*request.key.of_kind(COUNTER)) is None:
                return Outcome().settled().create(thing(COUNTER, "a"))
            host.get(COUNTER, "default", "b")
            return Outcome()

        def looks_again(request, host):
            if host.get(*request.key.of_kind(COUNTER)) is None:
                return Outcome().settled().create(thing(COUNTER, "a"))
            return Outcome().requeue_after(60)

        told = {looks_later: "would read what it has not", looks_again: "run again after 0:01:00"}
        for controller, text in told.items():
            writes = [Write(COUNTER, ["create"])]
            plugin = made(controller, reconciles=GOAL, reads=[GOAL, COUNTER], writes=writes)
            cluster = FakeCluster(plugin, thing(GOAL, "a"))
            with self.assertRaisesRegex(AssertionError, text):
                cluster.run_due()

    def test_an_outcome_that_leaves_something_to_do_is_not_settled(self):
        told = r"says that it is settled, but the next run would update"
        with self.assertRaisesRegex(AssertionError, told):
            self.cluster(25).turn("default", "a")
        with self.assertRaisesRegex(AssertionError, told):
            self.cluster(25).run_due()

    def test_settled_is_part_of_the_outcome(self):
        self.assertTrue(Outcome().settled().to_json()["settled"])
        self.assertNotEqual(Outcome(), Outcome().settled())


if __name__ == "__main__":
    unittest.main()
