"""The fake cluster shows, refuses, writes and wakes what the host would."""

import logging
import unittest
from datetime import datetime, timedelta, timezone

from pilothouse import (
    Denied,
    Effect,
    Index,
    ObjectRef,
    Outcome,
    Read,
    Retry,
    Selection,
    Terminal,
    Write,
    controller,
    keeps_children,
)
from pilothouse.testing import FakeCluster, Run, RunEnded

CONFIG_MAP = "v1/ConfigMap"
POD = "v1/Pod"
TEAM = "example.com/v1/Team"
MEMBER = "example.com/v1/Member"
EVERY_VERB = ["apply", "create", "update", "patch", "delete"]


def made(function, **manifest):
    """A controller from a function. Its module has others."""
    function.__globals__.pop("Plugin", None)
    return controller(name="p", version="1.0.0", **manifest)(function)


def thing(kind, name, namespace="default", labels=None, **parts):
    """An object."""
    api_version, _, kind_name = kind.rpartition("/")
    metadata = {"name": name, "labels": labels or {}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind_name, "metadata": metadata, **parts}


def asking(question, *objects, **manifest):
    """The answer to what a reconcile asks of the host."""
    answers = []

    def reconcile(request, host):
        answers.append(question(host))
        return Outcome()

    FakeCluster(made(reconcile, singleton=True, **manifest), *objects).reconcile()
    return answers[0]


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


class Turns(unittest.TestCase):
    """Each test's controller returns what `self.outcome` makes of the request."""

    def cluster(self, *objects, **manifest):
        manifest = manifest or {
            "singleton": True,
            "reads": [CONFIG_MAP],
            "writes": [
                Write(CONFIG_MAP, EVERY_VERB, children=True),
                Write(CONFIG_MAP, EVERY_VERB[:4], subresource="status"),
            ],
        }
        self.seen = []

        def reconcile(request, host):
            self.seen.append(request)
            return self.outcome(request)

        return FakeCluster(made(reconcile, **manifest), *objects)

    def effects(self, cluster, outcome):
        """What became of the writes of an outcome: verb and result."""
        self.outcome = lambda request: outcome
        cluster.turn()
        cluster.reconcile()
        return [(effect.verb, effect.result) for effect in self.seen[-1].previous]

    def stored(self, cluster, name="a"):
        return cluster.object(CONFIG_MAP, "default", name)

    def test_an_apply_adds_its_fields_and_takes_back_what_it_leaves_out(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"own": "1"}))
        body = thing(CONFIG_MAP, "a", data={"x": "1", "y": "2"})
        self.assertEqual(self.effects(cluster, Outcome().apply(body)), [("apply", "done")])
        self.assertEqual(self.stored(cluster)["data"], {"own": "1", "x": "1", "y": "2"})
        self.assertEqual(self.effects(cluster, Outcome().apply(body)), [("apply", "unchanged")])
        del body["data"]["y"]
        self.effects(cluster, Outcome().apply(body))
        self.assertEqual(self.stored(cluster)["data"], {"own": "1", "x": "1"})

    def test_an_apply_of_anothers_field_is_a_conflict_without_force(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"x": "others"}))
        body = thing(CONFIG_MAP, "a", data={"x": "mine"})
        self.assertEqual(self.effects(cluster, Outcome().apply(body)), [("apply", "conflict")])
        self.assertEqual(self.seen[-1].attempt, 2)
        self.effects(cluster, Outcome().apply(body, force=True))
        self.assertEqual(self.stored(cluster)["data"], {"x": "mine"})
        self.assertEqual(self.seen[-1].attempt, 1)

    def test_status_is_written_through_its_subresource_alone(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={}))
        body = thing(CONFIG_MAP, "a", data={"x": "1"}, status={"ready": True})
        self.effects(cluster, Outcome().apply(body, subresource="status"))
        self.assertEqual(
            (self.stored(cluster)["data"], self.stored(cluster)["status"]), ({}, {"ready": True})
        )
        self.effects(cluster, Outcome().apply({**body, "status": {"ready": False}}))
        self.assertEqual(self.stored(cluster)["status"], {"ready": True})

    def test_an_update_replaces_what_the_snapshot_shows(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"x": "1"}))
        new = {**self.stored(cluster), "data": {"y": "2"}}
        self.assertEqual(self.effects(cluster, Outcome().update(new)), [("update", "done")])
        self.assertEqual(self.stored(cluster)["data"], {"y": "2"})
        same = Outcome().update(self.stored(cluster))
        self.assertEqual(self.effects(cluster, same), [("update", "unchanged")])
        gone = Outcome().update(thing(CONFIG_MAP, "b"))
        self.assertEqual(self.effects(cluster, gone), [("update", "not-found")])

    def test_patches_change_parts(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"x": "1", "y": "2"}))
        self.effects(cluster, Outcome().patch(ref, {"data": {"x": None, "z": "3"}}))
        self.assertEqual(self.stored(cluster)["data"], {"y": "2", "z": "3"})
        steps = [
            {"op": "test", "path": "/data/y", "value": "2"},
            {"op": "move", "from": "/data/y", "path": "/data/a~1b"},
            {"op": "add", "path": "/list", "value": [1]},
            {"op": "add", "path": "/list/-", "value": 2},
        ]
        patch = Outcome().patch(ref, steps, patch_type="json-patch")
        self.assertEqual(self.effects(cluster, patch), [("patch", "done")])
        self.assertEqual(self.stored(cluster)["data"], {"a/b": "2", "z": "3"})
        self.assertEqual(self.stored(cluster)["list"], [1, 2])
        self.assertEqual(self.effects(cluster, patch), [("patch", "conflict")])

    def test_finalizers_delay_a_deletion(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        cluster = self.cluster(thing(CONFIG_MAP, "a"))
        self.effects(cluster, Outcome().finalizer(ref, "example.com/f"))
        cluster.at(datetime(2026, 1, 2, tzinfo=timezone.utc))
        cluster.delete(*ref)
        self.assertEqual(
            self.stored(cluster)["metadata"]["deletionTimestamp"], "2026-01-02T00:00:00Z"
        )
        removed = Outcome().finalizer(ref, "example.com/f", present=False)
        self.assertEqual(self.effects(cluster, removed), [("finalizer", "done")])
        self.assertIsNone(self.stored(cluster))
        self.assertEqual(self.effects(cluster, removed), [("finalizer", "unchanged")])

    def test_a_generated_name_is_the_same_for_the_same_state(self):
        body = thing(CONFIG_MAP, "")
        del body["metadata"]["name"]
        body["metadata"]["generateName"] = "a-"
        cluster = self.cluster()
        twice = Outcome().create(body).create(body)
        self.effects(cluster, twice)
        first, second = (effect.object.name for effect in self.seen[-1].previous)
        self.assertTrue(first.startswith("a-") and first != second)
        self.assertEqual(
            self.effects(cluster, twice), [("create", "already-exists"), ("create", "skipped")]
        )

    def test_a_failure_skips_later_stages_but_those_that_begin_always(self):
        taken = thing(CONFIG_MAP, "a", data={"x": "others"})
        body = thing(CONFIG_MAP, "a", data={"x": "mine"})
        other, last = thing(CONFIG_MAP, "b"), thing(CONFIG_MAP, "c")
        outcome = Outcome().apply(body).create(other).stage().create(last).always().create(last)
        wanted = [
            ("apply", "conflict"),
            ("create", "done"),
            ("create", "skipped"),
            ("create", "done"),
        ]
        self.assertEqual(self.effects(self.cluster(taken), outcome), wanted)

    def test_children_that_are_no_longer_wanted_are_deleted(self):
        cluster = self.cluster(thing(CONFIG_MAP, "other"))
        self.effects(cluster, Outcome().children([thing(CONFIG_MAP, "a"), thing(CONFIG_MAP, "b")]))
        effects = self.effects(cluster, Outcome().children([thing(CONFIG_MAP, "b")]))
        self.assertEqual(effects, [("apply", "unchanged"), ("delete", "done")])
        left = [self.stored(cluster, name) is not None for name in ("a", "b", "other")]
        self.assertEqual(left, [False, True, True])

    def test_an_outcome_writes_one_object_several_times(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"x": "1"}))
        seen = self.stored(cluster)
        outcome = Outcome().patch(ref, {"metadata": {"resourceVersion": "any"}, "data": {"y": "2"}})
        outcome.update({**seen, "data": {"z": "3"}})
        outcome.patch(ref, {"metadata": {"resourceVersion": "any"}, "data": {"w": "4"}})
        outcome.apply(thing(CONFIG_MAP, "a", data={"v": "5"}))
        self.assertEqual({result for _, result in self.effects(cluster, outcome)}, {"done"})
        self.assertEqual(self.stored(cluster)["data"], {"z": "3", "w": "4", "v": "5"})

    def test_a_new_object_takes_what_later_actions_add(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        cluster = self.cluster()
        body = thing(CONFIG_MAP, "a", data={"x": "1"})
        body["metadata"]["finalizers"] = ["example.com/f"]
        outcome = Outcome().create(body).stage().finalizer(ref, "example.com/g")
        outcome.update(thing(CONFIG_MAP, "a", data={"y": "2"}))
        self.assertEqual({result for _, result in self.effects(cluster, outcome)}, {"done"})
        stored = self.stored(cluster)
        self.assertEqual(stored["data"], {"y": "2"})
        self.assertEqual(stored["metadata"]["finalizers"], ["example.com/f", "example.com/g"])

    def test_a_finalizer_that_is_so_already_is_not_sent(self):
        has = thing(CONFIG_MAP, "a")
        has["metadata"]["finalizers"] = ["example.com/f"]
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        outcome = Outcome().finalizer(ref, "example.com/f").finalizer(ref, "x", present=False)
        wanted = [("finalizer", "unchanged"), ("finalizer", "unchanged")]
        self.assertEqual(self.effects(self.cluster(has), outcome), wanted)

    def test_an_object_that_the_outcome_has_deleted_has_no_finalizers(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        outcome = Outcome().delete(ref).finalizer(ref, "x", present=False)
        wanted = [("delete", "done"), ("finalizer", "done")]
        self.assertEqual(self.effects(self.cluster(thing(CONFIG_MAP, "a")), outcome), wanted)

    def test_a_null_and_an_empty_object_claim_nothing_of_others(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"x": "others"}))
        body = thing(CONFIG_MAP, "a", data={}, more={"x": None})
        self.assertEqual(self.effects(cluster, Outcome().apply(body)), [("apply", "done")])
        self.assertEqual(self.stored(cluster)["data"], {"x": "others"})
        self.assertNotIn("more", self.stored(cluster))

    def test_a_status_that_is_so_already_is_not_updated(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", status={"ready": True}))
        same = Outcome().update(self.stored(cluster), subresource="status")
        self.assertEqual(self.effects(cluster, same), [("update", "unchanged")])
        other = {**self.stored(cluster), "status": {}}
        effects = self.effects(cluster, Outcome().update(other, subresource="status"))
        self.assertEqual(effects, [("update", "done")])

    def test_a_child_that_is_being_deleted_is_not_deleted_again(self):
        cluster = self.cluster()
        child = thing(CONFIG_MAP, "a")
        child["metadata"]["finalizers"] = ["example.com/f"]
        self.effects(cluster, Outcome().children([child]))
        self.assertEqual(self.effects(cluster, Outcome().children([])), [("delete", "done")])
        self.assertEqual(self.effects(cluster, Outcome().children([])), [])

    def test_a_json_patch_copies_only_what_is_read_whole(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        manifest = {
            "singleton": True,
            "reads": [Read(CONFIG_MAP, [".data[*].x", ".spec"])],
            "writes": [Write(CONFIG_MAP, ["patch"])],
        }
        for path, is_read in (
            ("/spec/deep/er", True),
            ("/data/k/x", True),
            ("/data/k", False),
            ("/data/k/y", False),
        ):
            with self.subTest(path):
                steps = [{"op": "copy", "from": path, "path": "/copied"}]
                outcome = Outcome().patch(ref, steps, patch_type="json-patch")
                cluster = self.cluster(**manifest)
                self.outcome = lambda request, outcome=outcome: outcome
                if is_read:
                    cluster.reconcile()
                else:
                    with self.assertRaisesRegex(Terminal, "may copy only what the plugin reads"):
                        cluster.reconcile()

    def test_children_are_applied_with_force(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"x": "others"}))
        child = thing(CONFIG_MAP, "a", data={"x": "mine"})
        self.assertEqual(self.effects(cluster, Outcome().children([child])), [("apply", "done")])
        self.assertEqual(self.stored(cluster)["data"], {"x": "mine"})

    def test_children_that_cannot_all_be_applied_delete_nothing(self):
        cluster = self.cluster()
        self.effects(cluster, Outcome().children([thing(CONFIG_MAP, "a")]))
        stale = thing(CONFIG_MAP, "b")
        stale["metadata"]["uid"] = "of one that is gone"
        wanted = [("apply", "conflict"), ("delete", "skipped")]
        self.assertEqual(self.effects(cluster, Outcome().children([stale])), wanted)
        self.assertIsNotNone(self.stored(cluster))

    def test_a_body_may_name_any_version(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a"))
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        self.effects(cluster, Outcome().delete(ref, resource_version="1"))
        self.assertEqual([effect.result for effect in self.seen[-1].previous], ["conflict"])
        self.assertEqual(self.effects(cluster, Outcome().delete(ref)), [("delete", "done")])

    def test_the_server_counts_versions_and_generations(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", spec={"x": 1}))
        self.effects(cluster, Outcome().create(thing(CONFIG_MAP, "b", spec={"x": 1})))
        before = self.stored(cluster, "b")["metadata"]
        ref = ObjectRef(CONFIG_MAP, "default", "b")
        self.effects(cluster, Outcome().patch(ref, {"metadata": {"labels": {"y": "z"}}}))
        labelled = self.stored(cluster, "b")["metadata"]
        self.effects(cluster, Outcome().patch(ref, {"spec": {"x": 2}}))
        changed = self.stored(cluster, "b")["metadata"]
        generations = [each["generation"] for each in (before, labelled, changed)]
        self.assertEqual(generations, [1, 1, 2])
        self.assertEqual(len({each["resourceVersion"] for each in (before, labelled, changed)}), 3)
        self.assertEqual(before["uid"], changed["uid"])

    def test_an_object_that_a_test_changes_gets_a_new_version(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a"))
        stored = self.stored(cluster)
        cluster.add({**stored, "data": {"x": "1"}})
        version = self.stored(cluster)["metadata"]["resourceVersion"]
        self.assertNotEqual(version, stored["metadata"]["resourceVersion"])

    def test_events_are_kept_for_the_test(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a"))
        self.effects(cluster, Outcome().event(ObjectRef(CONFIG_MAP, "default", "a"), "R", "A", "n"))
        self.assertEqual(
            [(event["reason"], event["note"]) for event in cluster.events], [("R", "n")]
        )

    def test_a_turn_that_fails_writes_nothing_and_counts(self):
        def fails(request):
            raise Retry("not yet")

        cluster = self.cluster()
        self.outcome = fails
        for attempt in (1, 2):
            with self.assertRaisesRegex(Retry, "not yet"):
                cluster.turn()
            self.assertEqual(self.seen[-1].attempt, attempt)
        self.outcome = lambda request: Outcome()
        effect = Effect(ObjectRef(CONFIG_MAP, "default", "a"), "create", "done", "7")
        cluster.reconcile(attempt=9, previous=[effect])
        self.assertEqual((self.seen[-1].attempt, self.seen[-1].previous), (9, [effect]))

    def test_a_write_that_is_not_declared_is_refused(self):
        cluster = self.cluster(singleton=True, writes=[Write(CONFIG_MAP, ["create"])])
        self.outcome = lambda request: Outcome().apply(thing(CONFIG_MAP, "a"))
        message = r"action 1 \(apply\): denied: apply of v1/ConfigMap is not among"
        with self.assertRaisesRegex(Terminal, message):
            cluster.turn()


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
