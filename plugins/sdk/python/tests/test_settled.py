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

    def test_what_somebody_else_has_changed_unseen_runs_it(self):
        def copies(request, host):
            counter = host.get(*request.key.of_kind(COUNTER)) or {"metadata": {}}
            more = counter["metadata"].get("labels", {}).get("more", "none")
            to = request.object["spec"]["to"]
            return Outcome().settled().apply(thing(COUNTER, "a", spec={"to": to, "more": more}))

        copying = made(
            copies, reconciles=GOAL, reads=[GOAL, COUNTER], writes=[Write(COUNTER, ["apply"])]
        )
        cluster = FakeCluster(copying, thing(GOAL, "a", spec={"to": 1}))
        cluster.run_due()
        changed = cluster.object(COUNTER, "default", "a")
        changed["metadata"]["labels"] = {"more": "some"}
        cluster.add_unseen(changed)
        cluster.add(thing(GOAL, "a", spec={"to": 2}))
        self.assertEqual(len(cluster.run_due()), 2)
        counter = cluster.object(COUNTER, "default", "a")
        self.assertEqual(counter["spec"], {"to": 2, "more": "some"})

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
