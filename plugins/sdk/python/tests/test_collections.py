"""Lists in pages, and the deletion of all objects of a namespace, in the fake cluster."""

import unittest

from pilothouse import Call, DeleteAll, ObjectRef, Outcome, Selection, Terminal, Write
from pilothouse.testing import FakeCluster, RunEnded

from things import CONFIG_MAP, POD, asking, made, thing


def purges(request, host):
    """Deletes what is doomed in its key's namespace, if there is any."""
    pages = host.pages(CONFIG_MAP, request.key.namespace, labels="doomed", size=2)
    sizes = [len(page) for page in pages]
    host.info("pages", sizes=sizes)
    outcome = Outcome()
    return outcome.delete_all(CONFIG_MAP, request.key.namespace, "doomed") if sizes else outcome


class Collections(unittest.TestCase):
    def deletes(self, *objects, **options):
        """What a deletion of all objects of a namespace leaves of these."""

        def reconcile(request, host):
            return Outcome().delete_all(CONFIG_MAP, **options)

        writes = [Write(CONFIG_MAP, ["deletecollection"])]
        cluster = FakeCluster(made(reconcile, singleton=True, writes=writes), *objects)
        cluster.turn()
        metadata = [each["metadata"] for each in objects]
        names = [(each.get("namespace", ""), each["name"]) for each in metadata]
        return [name for name in names if cluster.object(CONFIG_MAP, *name)]

    def test_all_objects_that_a_selector_selects_go_and_wake_who_has_read_them(self):
        doomed = [thing(CONFIG_MAP, name, labels={"doomed": "true"}) for name in "bcde"]
        elsewhere = thing(CONFIG_MAP, "b", "other", {"doomed": "true"})
        purging = made(
            purges,
            reconciles=Selection(CONFIG_MAP, labels="purge"),
            reads=[CONFIG_MAP],
            writes=[Write(CONFIG_MAP, ["deletecollection"])],
        )
        own = thing(CONFIG_MAP, "a", labels={"purge": "true"})
        cluster = FakeCluster(purging, own, elsewhere, *doomed)
        runs = cluster.run_due()
        self.assertEqual([run.error for run in runs], [None, None])
        self.assertEqual(cluster.lines, ["INFO pages sizes=[2, 2]", "INFO pages sizes=[]"])
        self.assertIsNone(cluster.object(CONFIG_MAP, "default", "e"))
        self.assertIsNotNone(cluster.object(CONFIG_MAP, "other", "b"))

    def test_a_deletion_of_all_is_of_one_namespace_and_of_a_selector(self):
        labelled = thing(CONFIG_MAP, "a", labels={"x": "y"})
        others = [thing(CONFIG_MAP, *name) for name in (("b",), ("a", "other"), ("c", ""))]
        left = self.deletes(labelled, *others, namespace="default")
        self.assertEqual(left, [("other", "a"), ("", "c")])
        left = self.deletes(labelled, *others, namespace="")
        self.assertEqual(left, [("default", "a"), ("default", "b"), ("other", "a")])
        labels = {"matchLabels": {"x": "y"}}
        left = self.deletes(labelled, *others, namespace="default", labels=labels)
        self.assertEqual(left, [("default", "b"), ("other", "a"), ("", "c")])

    def test_an_object_with_finalizers_waits_and_one_that_is_not_seen_goes(self):
        kept = thing(CONFIG_MAP, "a")
        kept["metadata"]["finalizers"] = ["x/f"]

        def reconcile(request, host):
            host.info("seen", count=len(host.list(CONFIG_MAP)))
            return Outcome().delete_all(CONFIG_MAP, "default")

        writes = [Write(CONFIG_MAP, ["deletecollection"])]
        purging = made(reconcile, singleton=True, reads=[CONFIG_MAP], writes=writes)
        cluster = FakeCluster(purging, kept)
        cluster.add_unseen(thing(CONFIG_MAP, "b"))
        cluster.turn()
        self.assertEqual(cluster.lines, ["INFO seen count=1"])
        self.assertIn("deletionTimestamp", cluster.object(CONFIG_MAP, "default", "a")["metadata"])
        self.assertIsNone(cluster.object(CONFIG_MAP, "default", "b"))

    def test_what_cannot_be_deleted_all_at_once_is_refused(self):
        for options, message in (
            ({"namespace": "a/b"}, '"a/b" is not a namespace\'s name'),
            ({"namespace": "a", "labels": "x=y,,"}, r"action 1 \(delete-all\): labels: label sel"),
        ):
            with self.subTest(options), self.assertRaisesRegex(Terminal, message):
                self.deletes(**options)
        with self.assertRaisesRegex(ValueError, "propagation is 'later'"):
            DeleteAll(CONFIG_MAP, "a", propagation="later")

    def test_the_effect_of_a_deletion_of_all_has_no_name(self):
        def reconcile(request, host):
            return Outcome().delete_all(CONFIG_MAP, "default")

        writes = [Write(CONFIG_MAP, ["deletecollection"])]
        cluster = FakeCluster(made(reconcile, singleton=True, writes=writes))
        cluster.reconcile()
        (effect,) = cluster.write()
        self.assertEqual(effect.object, ObjectRef(CONFIG_MAP, "default", ""))
        self.assertEqual((effect.verb, effect.result), ("delete-all", "done"))

    def test_an_apply_of_an_object_that_was_deleted_with_all_is_sent(self):
        body, effects = thing(CONFIG_MAP, "a", data={"x": "y"}), []

        def reconcile(request, host):
            outcome = Outcome()
            if request.attempt == 2:
                return outcome.delete_all(CONFIG_MAP, "default")
            return outcome.apply(body)

        writes = [Write(CONFIG_MAP, ["apply", "deletecollection"])]
        applying = made(reconcile, singleton=True, reads=[CONFIG_MAP], writes=writes)
        cluster = FakeCluster(applying)
        for attempt in (1, 1, 2):
            cluster.reconcile(attempt=attempt)
            effects += cluster.write()
        cluster.add(body)
        cluster.reconcile(attempt=1)
        effects += cluster.write()
        results = [effect.result for effect in effects]
        self.assertEqual(results, ["done", "unchanged", "done", "done"])

    def test_an_outcome_with_a_call_is_refused(self):
        def reconcile(request, host):
            return Outcome().add(Call("store", "GET", "/"))

        with self.assertRaisesRegex(RunEnded, "this host offers no calls"):
            FakeCluster(made(reconcile, singleton=True)).reconcile()


class Pages(unittest.TestCase):
    def test_the_pages_of_a_list_are_the_list(self):
        pods = [thing(POD, f"p{number}", f"n{number % 3}") for number in range(10)]
        whole = asking(lambda host: host.list(POD), *pods, reads=[POD])
        self.assertEqual(len(whole), 10)
        for size, sizes in ((1, [1] * 10), (3, [3, 3, 3, 1]), (5, [5, 5]), (500, [10])):
            with self.subTest(size):
                pages = asking(lambda host: list(host.pages(POD, size=size)), *pods, reads=[POD])
                self.assertEqual([len(page) for page in pages], sizes)
                self.assertEqual([each for page in pages for each in page], whole)

    def test_a_page_begins_after_an_object_that_need_not_exist(self):
        pods = [thing(POD, name) for name in "ac"]
        after = ObjectRef(POD, "default", "b")
        found = asking(lambda host: host.list_page(POD, after=after, limit=5), *pods, reads=[POD])
        self.assertEqual([each["metadata"]["name"] for each in found], ["c"])

    def test_a_list_without_objects_has_no_page(self):
        pages = asking(lambda host: list(host.pages(POD, labels="a")), thing(POD, "a"), reads=[POD])
        self.assertEqual(pages, [])

    def test_a_page_is_a_read_of_the_whole_list(self):
        def looks(request, host):
            host.list_page(POD, limit=1)
            return Outcome()

        cluster = FakeCluster(made(looks, singleton=True, reads=[POD]), thing(POD, "a"))
        cluster.run_due()
        cluster.add(thing(POD, "b"))
        self.assertEqual(len(cluster.run_due()), 1)

    def test_a_page_has_room_for_an_object(self):
        for limit in (0, 1 << 32):
            with self.assertRaisesRegex(ValueError, "write a number from 1 to 4294967295"):
                asking(lambda host: host.list_page(POD, limit=limit), reads=[POD])


if __name__ == "__main__":
    unittest.main()
