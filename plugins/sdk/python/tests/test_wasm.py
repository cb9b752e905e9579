"""What crosses the boundary of a component, with stand-ins for componentize-py's bindings."""

import json
import types
import unittest
from datetime import datetime, timezone
from unittest import mock

from pilothouse import (
    Answer,
    Call,
    Effect,
    ObjectRef,
    Outcome,
    Retry,
    Terminal,
    controller,
    wasm,
)

from bindings import Err, bindings

KEY = ObjectRef("v1/ConfigMap", "default", "a")


class Boundary(unittest.TestCase):
    def setUp(self):
        self.lines = []
        self.types = bindings("types.wit", "types")
        self.changes = bindings("changes.wit", "changes")
        self.plugin = bindings("world.wit", "plugin")
        self.snapshot = bindings("snapshot.wit", "snapshot")
        self.log = bindings("snapshot.wit", "log")
        self.log.log = lambda *line: self.lines.append(line)
        modules = {
            "Err": Err,
            "types": self.types,
            "changes": self.changes,
            "plugin": self.plugin,
            "snapshot": self.snapshot,
            "log": self.log,
            "clock": types.SimpleNamespace(now=lambda: 1_500),
        }
        patched = mock.patch.multiple(wasm, create=True, **modules)
        patched.start()
        self.addCleanup(patched.stop)

    def run_plugin(self, function, key=KEY, previous=(), memo=None):
        """What the component returns for a request, when it is made from a function."""
        names = {}
        code = types.FunctionType(function.__code__, names, closure=function.__closure__)
        controller(name="p", version="1", singleton=True)(code)
        plugin = names["Plugin"]()
        self.assertEqual(json.loads(plugin.describe())["name"], "p")
        request = self.plugin.Request(
            key=self.types.ObjectRef(*key) if key else None,
            object='{"data": {"x": "y"}}',
            attempt=3,
            previous=list(previous),
            memo=memo,
            config='{"a": 1}',
        )
        return plugin.reconcile(request)

    def test_a_request_is_dicts_and_names(self):
        seen = []
        skipped = self.changes.ActionResult_Skipped()
        exists = self.changes.ActionResult_AlreadyExists("there is one")
        effects = [
            self.changes.Effect(self.types.ObjectRef(*KEY), self.changes.Verb.CREATE, result)
            for result in (exists, skipped)
        ]

        def reconcile(request, host):
            seen.append(request)
            return made

        made = Outcome()
        self.run_plugin(reconcile, previous=effects)
        self.run_plugin(reconcile, key=None)
        request, without_key = seen
        self.assertEqual(request.key, KEY)
        self.assertEqual(request.object, {"data": {"x": "y"}})
        self.assertEqual((request.attempt, request.config), (3, {"a": 1}))
        wanted = [
            Effect(KEY, "create", "already-exists", "there is one"),
            Effect(KEY, "create", "skipped"),
        ]
        self.assertEqual(request.previous, wanted)
        self.assertIsNone(without_key.key)

    def test_a_memo_is_given_back_and_one_that_does_not_decode_is_forgotten(self):
        seen, made = [], Outcome()

        def reconcile(request, host):
            seen.append(request.memo)
            return made

        for memo in ('{"since": 1}', "{", None):
            self.run_plugin(reconcile, memo=memo)
        self.assertEqual(seen, [{"since": 1}, None, None])

    def test_the_answer_to_a_call_is_an_effect_without_an_error(self):
        seen, made, of = [], Outcome(), self.changes

        def reconcile(request, host):
            seen.extend(request.previous)
            return made

        ref = self.types.ObjectRef("", "", "store")
        answered = of.ActionResult_Answered(of.Answer(404, "none", 1_500))
        deleted = of.ActionResult_Done(None)
        effects = [
            of.Effect(ref, of.Verb.CALL, answered),
            of.Effect(ref, of.Verb.DELETE_ALL, deleted),
        ]
        self.run_plugin(reconcile, previous=effects)
        at = datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=timezone.utc)
        store = ObjectRef("", "", "store")
        answer = Effect(store, "call", "answered", answer=Answer(404, "none", at))
        self.assertEqual(seen, [answer, Effect(store, "delete-all", "done")])
        self.assertFalse(seen[0].is_error)

    def test_each_action_becomes_its_record(self):
        made = Outcome().apply({"é": 1}, subresource="status", force=True).create({}).update({})
        made.patch(KEY, [], patch_type="json-patch").delete(KEY, propagation="orphan")
        made.always().event(KEY, "R", "A", "n", event_type="warning").finalizer(KEY, "f", False)
        made.children([{"a": 1}]).requeue_after(1.5)
        made.delete_all("v1/Pod", "x", {"matchLabels": {"a": "b"}}, propagation="foreground")
        made.add(Call("store", "POST", "/x", {"a": 1})).add(Call("store", "GET", "/"))
        outcome = self.run_plugin(lambda request, host: made)
        ref, of = self.types.ObjectRef(*KEY), self.changes
        wanted = [
            of.Action_Apply(of.Apply('{"é":1}', "status", True)),
            of.Action_Create(of.Create("{}", None)),
            of.Action_Update(of.Update("{}", None)),
            of.Action_Patch(of.Patch(ref, None, of.PatchType.JSON_PATCH, "[]")),
            of.Action_Delete(of.Delete(ref, None, None, of.Propagation.ORPHAN, None)),
        ]
        last = [
            of.Action_Event(of.Event(ref, of.EventType.WARNING, "R", "A", "n")),
            of.Action_Finalizer(of.Finalizer(ref, "f", False)),
            of.Action_Children(of.Children(['{"a":1}'])),
            of.Action_DeleteAll(
                of.DeleteAll(
                    "v1/Pod", "x", '{"matchLabels":{"a":"b"}}', of.Propagation.FOREGROUND
                )
            ),
            of.Action_Call(of.Call("store", "POST", "/x", '{"a":1}')),
            of.Action_Call(of.Call("store", "GET", "/", None)),
        ]
        self.assertEqual(outcome.stages, [of.Stage(wanted, False), of.Stage(last, True)])
        self.assertEqual(outcome.next, self.plugin.Next_After(1_500))
        made.retry("later")
        outcome = self.run_plugin(lambda request, host: made)
        self.assertEqual(outcome.next, self.plugin.Next_Retry("later"))

    def test_what_an_outcome_says_of_later_runs_crosses(self):
        made = Outcome().confirm(KEY).confirm_list("v1/Pod", "x", labels="a")
        made.confirm_list("v1/Pod", index=("node", "n")).not_before(20).remember({"é": 1})
        outcome = self.run_plugin(lambda request, host: made)
        of = self.snapshot
        wanted = [
            of.Question_Object(self.types.ObjectRef(*KEY)),
            of.Question_Objects(of.Query("v1/Pod", "x", of.Filter_Labels("a"))),
            of.Question_Objects(
                of.Query("v1/Pod", None, of.Filter_Index(of.IndexValue("node", "n")))
            ),
        ]
        self.assertEqual(outcome, self.plugin.Outcome(
            stages=[],
            confirm=wanted,
            next=self.plugin.Next_OnChange(),
            not_before=20_000,
            memo='{"é":1}',
        ))
        made = Outcome()
        outcome = self.run_plugin(lambda request, host: made)
        self.assertEqual((outcome.confirm, outcome.not_before, outcome.memo), ([], 0, None))

    def test_reads_and_lines_reach_the_imports(self):
        asked = []

        def listed(query):
            asked.append(query)
            return '[\n{"a": 1}\n]'

        def got(ref):
            asked.append(ref)
            return None

        self.snapshot.get, self.snapshot.list = got, listed
        made, answers = Outcome(), []

        def reconcile(request, host):
            answers.append(host.get("v1/Node", "", "n"))
            answers.append(host.list("v1/Pod"))
            host.list("v1/Pod", "x", match_labels={"app": "web"})
            host.list("v1/Pod", index=("node", "n"))
            host.warn("look", count=2, now=host.now().isoformat())
            return made

        self.run_plugin(reconcile)
        self.assertEqual(answers, [None, [{"a": 1}]])
        of = self.snapshot
        labels = of.Filter_Labels('{"matchLabels":{"app":"web"}}')
        index = of.Filter_Index(of.IndexValue("node", "n"))
        wanted = [
            self.types.ObjectRef("v1/Node", "", "n"),
            of.Query("v1/Pod", None, of.Filter_Everything()),
            of.Query("v1/Pod", "x", labels),
            of.Query("v1/Pod", None, index),
        ]
        self.assertEqual(asked, wanted)
        fields = [("count", "2"), ("now", "1970-01-01T00:00:01.500000+00:00")]
        self.assertEqual(self.lines, [(self.log.Level.WARN, "look", fields)])

    def test_pages_follow_each_other_until_one_is_not_full(self):
        asked, found = [], []
        pages = iter(["ab", "c"])

        def listed(query, after, limit):
            asked.append((query, after, limit))
            named = [{"metadata": {"namespace": "x", "name": name}} for name in next(pages)]
            return json.dumps(named)

        self.snapshot.list_page = listed
        made = Outcome()

        def reconcile(request, host):
            for page in host.pages("v1/Pod", labels="a", size=2):
                found.append([each["metadata"]["name"] for each in page])
            return made

        self.run_plugin(reconcile)
        self.assertEqual(found, [["a", "b"], ["c"]])
        query = self.snapshot.Query("v1/Pod", None, self.snapshot.Filter_Labels("a"))
        second = self.types.ObjectRef("v1/Pod", "x", "b")
        self.assertEqual(asked, [(query, None, 2), (query, second, 2)])

    def failure(self, function):
        with self.assertRaises(Err) as raised:
            self.run_plugin(function)
        return raised.exception.value

    def test_what_is_raised_becomes_a_failure(self):
        def failing(error):
            def reconcile(request, host):
                raise error

            return reconcile

        of = self.plugin
        self.assertEqual(self.failure(failing(Retry("soon"))), of.Failure_Retry("soon"))
        self.assertEqual(self.failure(failing(Terminal("no"))), of.Failure_Terminal("no"))
        self.assertEqual(self.lines, [])
        self.assertEqual(
            self.failure(failing(KeyError("spec"))), of.Failure_Retry("KeyError: 'spec'")
        )
        ((level, message, fields),) = self.lines
        self.assertEqual((level, message), (self.log.Level.ERROR, "reconcile raised"))
        self.assertEqual(fields[0], ("error", "KeyError: 'spec'"))
        self.assertIn("in reconcile", dict(fields)["traceback"])

    def test_a_read_that_is_denied_is_terminal(self):
        def got(ref):
            raise Err(self.snapshot.ReadError_Denied("not yours"))

        self.snapshot.get = got
        self.snapshot.list_page = lambda query, after, limit: got(query)
        wanted = self.plugin.Failure_Terminal("denied: not yours")
        failure = self.failure(lambda request, host: host.get("v1/Pod", "a", "b"))
        self.assertEqual(failure, wanted)
        failure = self.failure(lambda request, host: host.list_page("v1/Pod", limit=1))
        self.assertEqual(failure, wanted)

    def test_a_reconcile_without_an_outcome_fails(self):
        failure = self.failure(lambda request, host: None)
        self.assertIn("return Outcome() where nothing is to be done", failure.value)

    def test_an_object_that_is_not_json_is_named(self):
        made = Outcome().create({}).apply({"x": object()})
        failure = self.failure(lambda request, host: made)
        self.assertIsInstance(failure, self.plugin.Failure_Terminal)
        self.assertIn("action 2 (apply): Object of type object is not JSON", failure.value)


if __name__ == "__main__":
    unittest.main()
