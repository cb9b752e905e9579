"""The fake cluster runs the keys that the host would run, and no others."""

import unittest
from datetime import datetime, timedelta, timezone

from pilothouse import (
    Index,
    ObjectRef,
    Outcome,
    Read,
    Retry,
    Selection,
    Terminal,
    Write,
    keeps_children,
)
from pilothouse.testing import FakeCluster, Run

from things import CONFIG_MAP, MEMBER, POD, TEAM, made, thing


def counts_members(request, host):
    """Writes into the status of a Team how many members it has, but not more than five."""
    key = request.key
    if request.object is None:
        host.info("gone", team=key.name)
        return Outcome()
    found = host.list(MEMBER, key.namespace, index=("team", key.name))
    if len(found) > 5:
        raise Retry(f"attempt {request.attempt}: too many")
    status = {"members": len(found)}
    return Outcome().apply(thing(TEAM, key.name, status=status), subresource="status")


def team(name, active="true"):
    return thing(TEAM, name, labels={"active": active})


def member(name, of, age=1):
    return thing(MEMBER, name, spec={"team": of, "age": age})


class RunDue(unittest.TestCase):
    def setUp(self):
        counts = made(
            counts_members,
            reconciles=Selection(TEAM, labels="active=true"),
            reads=[Read(TEAM, [".metadata.labels"]), Read(MEMBER, [".spec.team"])],
            indexes=[Index("team", MEMBER, [".spec.team"])],
            writes=[Write(TEAM, ["apply"], subresource="status")],
        )
        self.cluster = FakeCluster(counts, team("a"), team("b"), member("one", "a"))
        # A status that is written is not as it was when the write was decided on, so the key looks
        # once more.
        self.assertEqual(self.due(), ["a", "a", "b", "b"])
        self.assertEqual(self.due(), [])

    def due(self):
        return [run.key.name for run in self.cluster.run_due()]

    def members(self, name):
        return self.cluster.object(TEAM, "default", name)["status"]["members"]

    def test_a_change_runs_the_keys_that_read_what_has_changed_and_no_others(self):
        self.cluster.add(member("two", "b"))
        self.assertEqual(self.due(), ["b", "b"])
        self.cluster.add(member("two", "b", age=2))
        self.assertEqual(self.due(), [], "the manifest does not read the age")
        self.cluster.delete(MEMBER, "default", "one")
        self.assertEqual(self.due(), ["a", "a"])
        self.assertEqual((self.members("a"), self.members("b")), (0, 1))

    def test_a_subject_that_is_not_selected_any_more_is_gone(self):
        self.cluster.add(team("a", active="false"))
        self.assertEqual(self.due(), ["a"])
        self.assertEqual(self.cluster.lines, ["INFO gone team=a"])

    def test_another_object_of_the_same_name_runs_the_key(self):
        def looks(request, host):
            return Outcome()

        cluster = FakeCluster(made(looks, reconciles=POD, reads=[Read(POD, [".spec"])]))
        cluster.add({**thing(POD, "a"), "metadata": {"name": "a", "uid": "1"}})
        self.assertEqual(len(cluster.run_due()), 1)
        cluster.add({**thing(POD, "a"), "metadata": {"name": "a", "uid": "2"}})
        self.assertEqual(len(cluster.run_due()), 1)
        cluster.add({**thing(POD, "a"), "metadata": {"name": "a", "uid": "2"}})
        self.assertEqual(cluster.run_due(), [])

    def test_a_subject_that_is_selected_again_runs(self):
        self.cluster.add(team("c", active="false"))
        self.assertEqual(self.due(), [])
        self.cluster.add(team("c"))
        self.assertEqual(self.due(), ["c", "c"])

    def test_a_failed_key_runs_again_when_its_time_has_come(self):
        self.cluster.add(*(member(str(number), "b") for number in range(6)))
        key = ObjectRef(TEAM, "default", "b")
        self.assertEqual(self.cluster.run_due(), [Run(key, "attempt 1: too many")])
        self.assertEqual(self.cluster.run_due(), [], "not yet")
        self.cluster.at(datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc))
        self.assertEqual(self.cluster.run_due(), [Run(key, "attempt 2: too many")])

    def test_a_requeue_runs_when_its_time_has_come(self):
        def waits(request, host):
            return Outcome().requeue_after(timedelta(minutes=1))

        cluster = FakeCluster(made(waits, singleton=True))
        self.assertEqual(cluster.run_due(), [Run(None)])
        self.assertEqual(cluster.run_due(), [])
        cluster.at(datetime(1970, 1, 1, 0, 1, tzinfo=timezone.utc))
        self.assertEqual(cluster.run_due(), [Run(None)])

    def test_a_terminal_failure_waits_for_a_change(self):
        def refuses(request, host):
            raise Terminal("no title")

        refusing = made(refuses, reconciles=CONFIG_MAP, reads=[CONFIG_MAP])
        cluster = FakeCluster(refusing, thing(CONFIG_MAP, "a"))
        key = ObjectRef(CONFIG_MAP, "default", "a")
        self.assertEqual(cluster.run_due(), [Run(key, "no title")])
        cluster.at(datetime(2026, 1, 1, tzinfo=timezone.utc))
        self.assertEqual(cluster.run_due(), [])
        cluster.add(thing(CONFIG_MAP, "a", data={"title": "x"}))
        self.assertEqual(cluster.run_due(), [Run(key, "no title")])

    def test_an_object_of_the_same_name_queues_the_key(self):
        def looks(request, host):
            return Outcome()

        follows = Selection("v1/Service", also_enqueued_by=["v1/Endpoints"])
        looking = made(looks, reconciles=follows, reads=["v1/Service", "v1/Endpoints"])
        cluster = FakeCluster(looking, thing("v1/Endpoints", "left"))
        self.assertEqual(cluster.run_due(), [Run(ObjectRef("v1/Service", "default", "left"))])
        cluster.add(thing("v1/Endpoints", "new"))
        self.assertEqual(cluster.run_due(), [Run(ObjectRef("v1/Service", "default", "new"))])

    def test_a_key_that_has_children_left_runs_at_the_start(self):
        def keeps(request, host):
            return Outcome().children([thing(CONFIG_MAP, "child")] if request.object else [])

        options = {"reconciles": POD, "reads": [POD, CONFIG_MAP]}
        keeping = made(keeps, writes=[keeps_children(CONFIG_MAP)], **options)
        before = FakeCluster(keeping, thing(POD, "a"))
        before.run_due()
        after = FakeCluster(keeping, before.object(CONFIG_MAP, "default", "child"))
        self.assertEqual({run.key.name for run in after.run_due()}, {"a"})
        self.assertIsNone(after.object(CONFIG_MAP, "default", "child"))

    def test_a_controller_that_never_comes_to_rest_fails_the_test(self):
        def counts(request, host):
            found = host.get(CONFIG_MAP, "default", "a") or {"data": {"n": "0"}}
            number = str(int(found["data"]["n"]) + 1)
            return Outcome().apply(thing(CONFIG_MAP, "a", data={"n": number}))

        writes = [Write(CONFIG_MAP, ["apply"])]
        cluster = FakeCluster(made(counts, singleton=True, reads=[CONFIG_MAP], writes=writes))
        with self.assertRaisesRegex(AssertionError, "never comes to rest"):
            cluster.run_due()


if __name__ == "__main__":
    unittest.main()
