"""What the fake cluster remembers of a key: its memo, and a time before which it does not run."""

import unittest
from datetime import datetime, timedelta, timezone

from pilothouse import Outcome, Retry, Terminal, Write
from pilothouse.testing import FakeCluster

from things import CONFIG_MAP, made, thing


def counts(request, host):
    """Counts its runs in its memo, and rests for ten seconds after each."""
    runs = request.memo or 0
    host.info("runs", before=runs)
    return Outcome().not_before(10).remember(runs + 1)


def at(seconds):
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=seconds)


class Remembers(unittest.TestCase):
    def setUp(self):
        counting = made(counts, reconciles=CONFIG_MAP, reads=[CONFIG_MAP])
        self.cluster = FakeCluster(counting, thing(CONFIG_MAP, "a"))

    def run_twice(self):
        self.cluster.run_due()
        self.cluster.add(thing(CONFIG_MAP, "a", data={"x": "y"}))
        self.cluster.at(at(10))
        self.cluster.run_due()
        return self.cluster.lines

    def test_a_memo_is_given_to_the_next_run(self):
        self.assertEqual(self.run_twice(), ["INFO runs before=0", "INFO runs before=1"])

    def test_memos_that_are_forgotten_are_given_to_none(self):
        self.cluster.forget_memos()
        self.assertEqual(self.run_twice(), ["INFO runs before=0", "INFO runs before=0"])

    def test_a_memo_lasts_from_turn_to_turn_and_a_test_can_give_one(self):
        self.cluster.turn("default", "a")
        self.cluster.turn("default", "a")
        self.cluster.reconcile("default", "a", memo=7)
        lines = [f"INFO runs before={number}" for number in (0, 1, 7)]
        self.assertEqual(self.cluster.lines, lines)

    def test_a_key_whose_object_is_gone_has_no_memo(self):
        self.cluster.turn("default", "none")
        self.cluster.turn("default", "none")
        self.assertEqual(self.cluster.lines, ["INFO runs before=0"] * 2)

    def test_a_new_configuration_ends_memos_and_rests(self):
        self.cluster.run_due()
        self.cluster.configure({"x": 1})
        self.assertEqual(len(self.cluster.run_due()), 1)
        self.assertEqual(self.cluster.lines, ["INFO runs before=0"] * 2)

    def test_a_key_that_rests_is_not_due_before_its_time_and_misses_nothing(self):
        self.assertEqual(len(self.cluster.run_due()), 1)
        self.cluster.add(thing(CONFIG_MAP, "a", data={"x": "y"}))
        self.cluster.at(at(9.999))
        self.assertEqual(self.cluster.run_due(), [])
        self.cluster.at(at(10))
        self.assertEqual(len(self.cluster.run_due()), 1)
        self.cluster.at(at(100))
        self.assertEqual(self.cluster.run_due(), [], "nothing has changed")

    def test_a_reconcile_that_fails_leaves_the_memo(self):
        def fails_first(request, host):
            if request.memo == 1 and request.attempt == 1:
                raise Retry("again")
            return Outcome().remember((request.memo or 0) + 1)

        cluster = FakeCluster(made(fails_first, singleton=True))
        cluster.turn()
        with self.assertRaises(Retry):
            cluster.turn()
        self.assertEqual(cluster.turn(), Outcome().remember(2))

    def test_what_the_controller_does_to_its_memo_stays_with_it(self):
        def changes(request, host):
            memo = request.memo or {"seen": []}
            memo["seen"].append(1)
            return Outcome().remember(memo)

        cluster = FakeCluster(made(changes, singleton=True))
        cluster.turn()
        self.assertEqual(cluster.turn(), Outcome().remember({"seen": [1, 1]}))

    def test_a_rest_ends_after_an_hour_and_delays_a_requeue(self):
        def rests(request, host):
            return Outcome().not_before(timedelta(hours=2)).requeue_after(60)

        cluster = FakeCluster(made(rests, singleton=True))
        cluster.run_due()
        cluster.at(at(3_599))
        self.assertEqual(cluster.run_due(), [])
        cluster.at(at(3_600))
        self.assertEqual(len(cluster.run_due()), 1)

    def test_a_memo_that_is_too_long_is_refused(self):
        def writes(request, host):
            return Outcome().remember("x" * 65_535)

        with self.assertRaisesRegex(Terminal, "a memo of 65537 bytes; it has at most 65536"):
            FakeCluster(made(writes, singleton=True)).reconcile()

    def test_a_memo_is_kept_though_a_write_has_failed(self):
        def fails(request, host):
            host.info("memo", is_there=request.memo is not None)
            gone = thing(CONFIG_MAP, "none", uid="u", data={})
            return Outcome().update(gone).remember(1)

        writes = [Write(CONFIG_MAP, ["update"])]
        cluster = FakeCluster(made(fails, singleton=True, reads=[CONFIG_MAP], writes=writes))
        cluster.turn()
        cluster.turn()
        self.assertEqual(cluster.lines[-1], "INFO memo is_there=True")


if __name__ == "__main__":
    unittest.main()
