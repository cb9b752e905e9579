"""The fake cluster shows what the host would, and runs a reconcile as the host would."""

import logging
import unittest
from datetime import timedelta

from pilothouse import (
    Denied,
    Index,
    Outcome,
    Read,
)
from pilothouse.testing import FakeCluster, RunEnded

from things import CONFIG_MAP, POD, asking, made, thing


class Reads(unittest.TestCase):
    def test_an_object_is_cut_to_the_fields_of_the_manifest(self):
        pod = thing(POD, "a", labels={"x.io/a": "1", "b": "2"})
        pod["spec"] = {"ports": [{"name": "http", "port": 1}, {"port": 2}, 3], "hostname": "h"}
        pod["metadata"]["uid"] = "u"
        fields = [".spec.ports[*].name", ".metadata.labels['x.io/a']", ".spec.hostname.no"]
        seen = asking(lambda host: host.get(POD, "default", "a"), pod, reads=[Read(POD, fields)])
        metadata = {"name": "a", "namespace": "default", "uid": "u", "labels": {"x.io/a": "1"}}
        spec = {"ports": [{"name": "http"}, {}, None], "hostname": None}
        self.assertEqual(seen, {"metadata": metadata, "spec": spec})

    def test_a_filter_that_is_none_is_refused_by_its_name(self):
        for method in ("list", "pages"):
            with self.subTest(method), self.assertRaisesRegex(TypeError, "'label'"):
                asking(lambda host: list(getattr(host, method)(POD, label="a=b")), reads=[POD])
        with self.assertRaisesRegex(TypeError, "'label'"):
            Outcome().confirm_list(POD, label="a=b")

    def test_a_step_for_each_keeps_the_values_of_a_map(self):
        made_of = thing(CONFIG_MAP, "a", data={"x": {"k": 1, "l": 2}, "y": {"k": 3}})
        reads = [Read(CONFIG_MAP, [".data[*].k"])]
        seen = asking(lambda host: host.get(CONFIG_MAP, "default", "a"), made_of, reads=reads)
        self.assertEqual(seen["data"], {"x": {"k": 1}, "y": {"k": 3}})

    def test_a_whole_object_lacks_what_the_host_never_keeps(self):
        last = "kubectl.kubernetes.io/last-applied-configuration"
        whole = thing(POD, "a")
        whole["metadata"] |= {"managedFields": [1], "annotations": {last: "x", "b": "y"}}
        seen = asking(lambda host: host.get(POD, "default", "a"), whole, reads=[POD])
        self.assertNotIn("managedFields", seen["metadata"])
        self.assertEqual(seen["metadata"]["annotations"], {"b": "y"})

    def test_what_the_controller_does_to_an_answer_stays_with_it(self):
        def reconcile(request, host):
            host.get(POD, "default", "a")["metadata"]["name"] = "b"
            return Outcome()

        cluster = FakeCluster(made(reconcile, singleton=True, reads=[POD]), thing(POD, "a"))
        cluster.reconcile()
        self.assertIsNotNone(cluster.object(POD, "default", "a"))

    def test_a_list_takes_selectors_in_both_forms_and_indexes(self):
        pods = [
            thing(POD, "c", labels={"app": "web", "tier": "a"}, spec={"nodeName": "n1"}),
            thing(POD, "b", labels={"app": "web"}, spec={"nodeName": "n2"}),
            thing(POD, "a", "other", labels={"app": "db"}, spec={"nodeName": "n1"}),
        ]
        expression = {"key": "tier", "operator": "DoesNotExist"}
        for options, wanted in (
            ({}, ["b", "c", "a"]),
            ({"namespace": "other"}, ["a"]),
            ({"labels": "app=web"}, ["b", "c"]),
            ({"labels": "app in (web, x),!tier"}, ["b"]),
            ({"labels": "app!=web"}, ["a"]),
            ({"labels": "tier notin (b),app"}, ["b", "c", "a"]),
            ({"labels": {"matchLabels": {"app": "web"}, "matchExpressions": [expression]}}, ["b"]),
            ({"match_labels": {"app": "web", "tier": "a"}}, ["c"]),
            ({"index": ("node", "n1")}, ["c", "a"]),
            ({"index": ("node", "n1"), "namespace": "default"}, ["c"]),
            ({"index": ("node", "none")}, []),
        ):
            with self.subTest(options):
                found = asking(
                    lambda host: host.list(POD, **options),
                    *pods,
                    reads=[Read(POD, [".spec"])],
                    indexes=[Index("node", POD, [".spec.nodeName"])],
                )
                self.assertEqual([each["metadata"]["name"] for each in found], wanted)

    def test_a_read_narrowed_by_a_selector_shows_nothing_else(self):
        pods = [
            thing(POD, "a", labels={"app": "web"}, status={"phase": "Running"}),
            thing(POD, "b", labels={"app": "web"}, status={"phase": "Failed"}),
            thing(POD, "c"),
        ]
        reads = [Read(POD, labels="app=web", field_selector="status.phase!=Failed")]
        found = asking(lambda host: host.list(POD), *pods, reads=reads)
        self.assertEqual([each["metadata"]["name"] for each in found], ["a"])

    def test_what_the_manifest_does_not_read_is_denied(self):
        with self.assertRaisesRegex(Denied, "v1/Secret is not among the manifest's reads"):
            asking(lambda host: host.get("v1/Secret", "default", "a"), reads=[POD])
        for read in (lambda host: host.get(POD, "b", "x"), lambda host: host.list(POD, "b")):
            with self.assertRaisesRegex(Denied, 'reads v1/Pod in other namespaces, not in "b"'):
                asking(read, reads=[Read(POD, namespaces=["a"])])

    def test_a_list_of_all_namespaces_shows_those_of_the_manifest(self):
        pods = [thing(POD, "x", "a"), thing(POD, "y", "b")]
        found = asking(lambda host: host.list(POD), *pods, reads=[Read(POD, namespaces=["a"])])
        self.assertEqual([each["metadata"]["name"] for each in found], ["x"])

    def test_a_denied_read_fails_even_a_controller_that_goes_on(self):
        def goes_on(host):
            try:
                host.get("v1/Secret", "default", "a")
            except Denied:
                pass

        with self.assertRaises(Denied):
            asking(goes_on)

    def test_a_mistake_in_a_read_ends_the_run(self):
        for question, message in (
            (lambda host: host.list("Pod"), '"Pod" is not a kind'),
            (lambda host: host.list(POD, labels="a=b,,"), "label selector"),
            (lambda host: host.list(POD, index=("none", "x")), 'no index "none" of v1/Pod'),
            (lambda host: host.list(POD, labels=",".join(["a"] * 101)), "more than 100 conditions"),
        ):

            def swallows(host, question=question):
                try:
                    question(host)
                except Exception:
                    pass

            with self.assertRaisesRegex(RunEnded, message):
                asking(swallows, reads=[POD])


class Purity(unittest.TestCase):
    def test_another_outcome_the_second_time_fails_the_test(self):
        calls = []

        def reconcile(request, host):
            calls.append(1)
            return Outcome().requeue_after(len(calls))

        with self.assertRaisesRegex(AssertionError, "not pure: .* it returned"):
            FakeCluster(made(reconcile, singleton=True)).reconcile()

    def test_so_do_another_memo_rest_and_question(self):
        for say in (
            lambda outcome, number: outcome.remember(number),
            lambda outcome, number: outcome.not_before(number),
            lambda outcome, number: outcome.confirm_list(POD, f"n{number}"),
        ):
            calls = []

            def reconcile(request, host, say=say):
                calls.append(1)
                return say(Outcome(), len(calls))

            with self.assertRaisesRegex(AssertionError, "not pure: .* it returned"):
                FakeCluster(made(reconcile, singleton=True, reads=[POD])).reconcile()

    def test_other_reads_the_second_time_fail_the_test(self):
        calls = []

        def reconcile(request, host):
            calls.append(1)
            host.get(POD, "default", str(len(calls)))
            return Outcome()

        with self.assertRaisesRegex(AssertionError, "not pure: .* it read"):
            FakeCluster(made(reconcile, singleton=True, reads=[POD])).reconcile()

    def test_who_asks_for_the_time_only_once_fails_the_test(self):
        calls = []

        def reconcile(request, host):
            calls.append(1)
            if len(calls) == 1:
                host.now()
            return Outcome()

        with self.assertRaisesRegex(AssertionError, "not pure: .* it read"):
            FakeCluster(made(reconcile, singleton=True)).reconcile()

    def test_what_it_does_to_its_request_is_not_seen_again(self):
        def reconcile(request, host):
            request.config["seen"] = request.config.get("seen", 0) + 1
            request.previous.append(1)
            return Outcome().requeue_after(request.config["seen"] + len(request.previous))

        outcome = FakeCluster(made(reconcile, singleton=True)).reconcile()
        self.assertEqual(outcome.after, timedelta(seconds=2))


class Logging(unittest.TestCase):
    def test_lines_have_their_level_and_fields_and_come_once(self):
        def reconcile(request, host):
            host.debug("looking", at="x")
            logging.getLogger("lib").info("%s things", 2, extra={"size": 3})
            logging.getLogger("lib").debug("too much")
            return Outcome()

        cluster = FakeCluster(made(reconcile, singleton=True))
        cluster.reconcile()
        wanted = ["DEBUG looking at=x", "INFO 2 things size=3 logger=lib"]
        self.assertEqual(cluster.lines, wanted)

    def test_an_exception_that_is_logged_has_its_traceback(self):
        def reconcile(request, host):
            try:
                return {}["x"]
            except KeyError:
                logging.exception("no x")
            return Outcome()

        cluster = FakeCluster(made(reconcile, singleton=True))
        cluster.reconcile()
        self.assertIn("ERROR no x logger=root traceback=Traceback", cluster.lines[0])

    def test_an_unexpected_exception_fails_the_test(self):
        with self.assertRaises(ZeroDivisionError):
            asking(lambda host: 1 / 0)


if __name__ == "__main__":
    unittest.main()
