"""Writes that a test lets fail: what they stop, what the plugin is told, and when it goes on."""

import unittest
from datetime import datetime, timezone

from pilothouse import ObjectRef, Outcome, Read, Write, keeps_children
from pilothouse.testing import FakeCluster, Run
from things import POD, TEAM, made, thing

POD_VERBS = ["create", "delete", "deletecollection"]


def at(second):
    return datetime.fromtimestamp(second, timezone.utc)


def makes_pods(request, host):
    """Makes as many pods as its object says, then says so, and writes a status in any case."""
    host.info("run", attempt=request.attempt)
    outcome = Outcome()
    for number in range((request.object or {}).get("spec", {}).get("pods", 0)):
        if host.get(POD, "default", f"p{number}") is None:
            outcome.create(thing(POD, f"p{number}"))
    outcome.stage().event(request.key, reason="Made", action="Make", note="made the pods")
    status = thing(TEAM, request.key.name, status={"ran": True})
    return outcome.always().apply(status, subresource="status")


def team(name, pods):
    # The status is there: that it is written runs no key.
    return thing(TEAM, name, spec={"pods": pods}, status={"ran": True})


def with_pods(count):
    plugin = made(
        makes_pods,
        reconciles=TEAM,
        reads=[Read(TEAM, [".spec", ".metadata.finalizers"]), POD],
        writes=[
            Write(POD, POD_VERBS),
            Write(TEAM, ["patch"]),
            Write(TEAM, ["apply"], subresource="status"),
        ],
    )
    return FakeCluster(plugin, team("a", count))


def pods(cluster, most):
    """How many of the pods are there."""
    found = (cluster.object(POD, "default", f"p{number}") for number in range(most))
    return sum(each is not None for each in found)


class FailingWrites(unittest.TestCase):
    def creating(self, cluster, name="p0"):
        """What becomes of the create of a pod, on behalf of a singleton."""
        plugin = made(
            lambda request, host: Outcome().create(thing(POD, name)),
            singleton=True,
            reads=[POD],
            writes=[Write(POD, ["create"])],
        )
        one = FakeCluster(plugin)
        cluster(one)
        one.reconcile()
        return one, one.write()[0]

    def test_each_error_is_told_as_the_host_tells_it(self):
        said, silent = "the test lets it fail", "no answer within 30 s"
        for error, result, text in (
            ("invalid", "invalid", said),
            ("forbidden", "forbidden", said),
            ("not-found", "not-found", said),
            ("conflict", "conflict", said),
            ("already-exists", "already-exists", said),
            ("too-many-requests", "failed", f"HTTP 429: {said}"),
            ("server-error", "failed", f"HTTP 500: {said}"),
            ("no-answer", "failed", silent),
            ("answer-lost", "failed", silent),
        ):
            with self.subTest(error):
                cluster, effect = self.creating(lambda one: one.fail("create", POD, error))
                self.assertEqual((effect.result, effect.text), (result, text))
                self.assertEqual(pods(cluster, 1), int(error == "answer-lost"))

    def test_a_failed_create_stops_the_creates_and_the_later_stages_but_not_what_is_always_done(
        self,
    ):
        # One write is sent, then two, so that one more is under way when the second fails.
        cluster = with_pods(10)
        cluster.fail("create", POD, "forbidden", after=1)
        cluster.reconcile("default", "a")
        results = [effect.result for effect in cluster.write()]
        # Seven pods and the Event are skipped, and the status is written.
        self.assertEqual(results, ["done", "forbidden", "done", *["skipped"] * 8, "done"])
        self.assertEqual((cluster.events, pods(cluster, 10)), ([], 2))

    def test_no_child_is_deleted_before_all_that_are_wanted_are_there(self):
        wanted = ["c"]
        plugin = made(
            lambda request, host: Outcome().children([thing(TEAM, name) for name in wanted]),
            singleton=True,
            reads=[TEAM],
            writes=[keeps_children(TEAM)],
        )
        cluster = FakeCluster(plugin)
        cluster.turn()
        wanted[:] = ["a", "b"]
        cluster.fail("apply", TEAM, "forbidden", name="b")
        cluster.reconcile()
        results = [(effect.object.name, effect.result) for effect in cluster.write()]
        self.assertEqual(results, [("a", "done"), ("b", "forbidden"), ("c", "skipped")])
        cluster.turn()
        self.assertIsNone(cluster.object(TEAM, "default", "c"))

    def test_a_write_that_is_not_answered_stops_all_others(self):
        for error in ("no-answer", "too-many-requests"):
            with self.subTest(error):
                cluster = with_pods(1)
                cluster.fail("create", POD, error)
                cluster.reconcile("default", "a")
                results = [effect.result for effect in cluster.write()]
                self.assertEqual(results, ["failed", "skipped", "skipped"])

    def test_what_has_failed_is_done_when_its_time_has_come(self):
        cluster = with_pods(1)
        cluster.fail("create", POD, "server-error", times=None)
        last = cluster.run_due()[-1]
        self.assertEqual(last.error, "action 1: HTTP 500: the test lets it fail")
        self.assertEqual([effect.result for effect in last.effects][:2], ["failed", "skipped"])
        self.assertEqual({last}, {Run(last.key, last.error)})
        cluster.heal()
        self.assertEqual(cluster.run_due(), [], "not yet")
        self.assertEqual(cluster.events, [])
        cluster.at(at(2))
        self.assertIsNone(cluster.run_due()[0].error)
        self.assertEqual(pods(cluster, 1), 1)
        self.assertEqual(cluster.events[0]["reason"], "Made")

    def test_a_busy_server_is_left_alone_as_long_as_it_says(self):
        cluster = with_pods(1)
        cluster.fail("create", POD, "too-many-requests")
        self.assertIsNotNone(cluster.run_due()[-1].error)
        cluster.at(at(0.9))
        self.assertEqual(cluster.run_due(), [])
        cluster.at(at(1))
        self.assertIsNone(cluster.run_due()[0].error)

    def test_a_write_whose_answer_is_lost_is_not_done_twice(self):
        cluster = with_pods(1)
        cluster.fail("create", POD, "answer-lost")
        self.assertIsNotNone(cluster.run_due()[0].error)
        made_as = cluster.object(POD, "default", "p0")
        cluster.at(at(5))
        self.assertTrue(all(run.error is None for run in cluster.run_due()))
        self.assertEqual(cluster.object(POD, "default", "p0"), made_as)

    def test_a_key_whose_write_is_not_answered_waits_and_others_see_what_was_done(self):
        cluster = with_pods(1)
        cluster.add(team("b", 1))
        cluster.fail("create", POD, "forbidden")
        cluster.fail("create", POD, "answer-lost")
        runs = [(run.key.name, run.error is None) for run in cluster.run_due()]
        self.assertEqual(runs[:2], [("a", False), ("b", False)])
        self.assertEqual(set(runs[2:]), {("a", True)})
        cluster.at(at(1))
        self.assertEqual({run.key.name for run in cluster.run_due()}, {"b"})

    def test_silence_is_no_attempt(self):
        cluster = with_pods(1)
        cluster.fail("create", POD, "no-answer")
        cluster.run_due()
        cluster.at(at(5))
        cluster.run_due()
        self.assertEqual(set(cluster.lines), {"INFO run attempt=1"})
        self.assertEqual(pods(cluster, 1), 1)

    def test_only_the_writes_that_are_meant_fail(self):
        cluster = with_pods(1)
        cluster.fail("apply", TEAM, "conflict")
        cluster.fail("create", TEAM, "conflict")
        cluster.fail("create", POD, "conflict", name="p7")
        self.assertTrue(all(run.error is None for run in cluster.run_due()))
        cluster = with_pods(0)
        cluster.fail("apply", TEAM, "conflict", subresource="status", name="a")
        self.assertIsNotNone(cluster.run_due()[0].error)

    def test_finalizers_and_deletes_fail_as_other_writes_do(self):
        team = ObjectRef(TEAM, "default", "a")
        outcome = Outcome().finalizer(team, "example.com/f", True)
        outcome.delete(ObjectRef(POD, "default", "p0")).delete_all(POD, "default")
        plugin = made(
            lambda request, host: outcome,
            singleton=True,
            reads=[TEAM, POD],
            writes=[Write(TEAM, ["patch"]), Write(POD, POD_VERBS)],
        )
        cluster = FakeCluster(plugin, thing(TEAM, "a"), thing(POD, "p0"))
        for verb, kind in (("patch", TEAM), ("delete", POD), ("deletecollection", POD)):
            cluster.fail(verb, kind, "forbidden")
        for wanted in (["forbidden"] * 3, ["done"] * 3):
            cluster.reconcile()
            self.assertEqual([effect.result for effect in cluster.write()], wanted)
        self.assertEqual(pods(cluster, 1), 0)

    def test_an_error_that_cannot_happen_is_refused(self):
        cluster = with_pods(0)
        for verb, error, wanted in (
            ("make", "conflict", "'make' is no verb: apply, create"),
            ("create", "bad", "'bad' is no error: invalid, forbidden"),
            ("delete", "not-found", "a delete never fails with not-found"),
            ("apply", "already-exists", "a apply never fails with already-exists"),
        ):
            with self.subTest(error), self.assertRaisesRegex(ValueError, wanted):
                cluster.fail(verb, POD, error)


if __name__ == "__main__":
    unittest.main()
