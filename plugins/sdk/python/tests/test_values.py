"""Names, times, conditions, outcomes and the decorator."""

import ast
import importlib.util
import subprocess
import sys
import unittest
from datetime import datetime, timedelta, timezone
from pathlib import Path

from pilothouse import (
    Index,
    Limits,
    ManifestError,
    ObjectRef,
    Outcome,
    Read,
    Selection,
    Write,
    condition,
    controller,
    keeps_children,
    owner_reference,
    parse_rfc3339,
    rfc3339,
    set_condition,
)

SDK = Path(__file__).parents[1]
NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)


class Names(unittest.TestCase):
    def test_an_object_is_shown_with_its_kind_namespace_and_name(self):
        web = ObjectRef("apps/v1/Deployment", "default", "web")
        self.assertEqual(str(web), "apps/v1/Deployment default/web")
        self.assertEqual(web.api_version, "apps/v1")
        self.assertEqual(str(ObjectRef("v1/Node", "", "n1")), "v1/Node n1")
        self.assertEqual(str(web.of_kind("v1/Service")), "v1/Service default/web")
        self.assertEqual(str(web.named("db")), "apps/v1/Deployment default/db")

    def test_an_owner_reference_says_who(self):
        site = ObjectRef("example.com/v1/Site", "default", "a")
        wanted = {"apiVersion": "example.com/v1", "kind": "Site", "name": "a", "uid": "u1"}
        self.assertEqual(owner_reference(site, "u1"), wanted)
        managed = owner_reference(site, "u1", controller=True)
        self.assertEqual(managed, {**wanted, "controller": True})


class Times(unittest.TestCase):
    def test_a_time_is_written_as_kubernetes_writes_it(self):
        time = datetime(2026, 1, 2, 4, 4, 5, 999_999, timezone(timedelta(hours=1)))
        self.assertEqual(rfc3339(time), "2026-01-02T03:04:05Z")

    def test_a_time_without_a_zone_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no time zone"):
            rfc3339(datetime(2026, 1, 2))

    def test_times_of_objects_are_read(self):
        for text, wanted in (
            ("2026-01-01T00:00:00Z", NEW_YEAR),
            ("2026-01-01T00:00:00.123456789Z", NEW_YEAR + timedelta(microseconds=123_456)),
            ("2026-01-01T00:00:00.5Z", NEW_YEAR + timedelta(milliseconds=500)),
            ("2026-01-01T02:30:00+02:30", NEW_YEAR),
            ("2025-12-31T23:00:00-01:00", NEW_YEAR),
        ):
            with self.subTest(text):
                self.assertEqual(parse_rfc3339(text), wanted)
        with self.assertRaisesRegex(ValueError, "is not a time"):
            parse_rfc3339("yesterday")


class Conditions(unittest.TestCase):
    def test_a_condition_keeps_its_time_while_its_status_stays(self):
        conditions = []

        def set_on(day, new):
            set_condition(conditions, new, NEW_YEAR.replace(day=day))
            return [each["lastTransitionTime"][:10] for each in conditions]

        self.assertEqual(set_on(1, condition("Ready", False, "Starting")), ["2026-01-01"])
        unknown = condition("Sound", None, "NotAsked")
        self.assertEqual(set_on(1, unknown), ["2026-01-01", "2026-01-01"])
        later = condition("Ready", False, "Waiting", "for a pod", observed_generation=3)
        self.assertEqual(set_on(2, later), ["2026-01-01", "2026-01-01"])
        wanted = {
            "type": "Ready",
            "status": "False",
            "reason": "Waiting",
            "message": "for a pod",
            "observedGeneration": 3,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        self.assertEqual(conditions[0], wanted)
        self.assertEqual(set_on(3, condition("Ready", True, "Up")), ["2026-01-03", "2026-01-01"])
        self.assertEqual([each["status"] for each in conditions], ["True", "Unknown"])

    def test_a_condition_without_a_time_gets_one(self):
        conditions = [{"type": "Ready", "status": "True"}]
        set_condition(conditions, condition("Ready", True, "Up"), NEW_YEAR)
        self.assertEqual(conditions[0]["lastTransitionTime"], "2026-01-01T00:00:00Z")


class Outcomes(unittest.TestCase):
    def test_actions_go_to_the_current_stage(self):
        outcome = Outcome().stage().create({"a": 1}).stage().always().apply({"b": 2}).stage()
        stages = [(stage.always, len(stage.actions)) for stage in outcome.stages]
        self.assertEqual(stages, [(False, 1), (True, 1), (False, 0)])
        self.assertEqual([action.verb for action in outcome.actions], ["create", "apply"])
        self.assertEqual(Outcome().actions, [])

    def test_what_follows_is_what_was_asked_for_last(self):
        self.assertEqual(Outcome().to_json()["next"], "on-change")
        self.assertEqual(Outcome().requeue_after(1.5).to_json()["next"], {"after": 1_500})
        self.assertEqual(Outcome().requeue_after(1).retry("x").to_json()["next"], {"retry": "x"})
        minute = Outcome().retry("x").requeue_after(timedelta(minutes=1))
        self.assertEqual(minute.to_json()["next"], {"after": 60_000})
        with self.assertRaisesRegex(ValueError, "not negative"):
            Outcome().requeue_after(-1)

    def test_outcomes_are_equal_when_they_say_the_same(self):
        self.assertEqual(Outcome().apply({"a": 1, "b": 2}), Outcome().apply({"b": 2, "a": 1}))
        self.assertNotEqual(Outcome().apply({"a": 1}), Outcome().create({"a": 1}))

    def test_a_wrong_argument_is_refused_where_it_stands(self):
        ref = ObjectRef("v1/Pod", "default", "a")
        with self.assertRaisesRegex(ValueError, "patch_type is 'merge', and not one of json-patch"):
            Outcome().patch(ref, {}, patch_type="merge")
        with self.assertRaisesRegex(ValueError, "event_type is 'Warning'"):
            Outcome().event(ref, "R", "A", "n", event_type="Warning")
        with self.assertRaisesRegex(TypeError, "object is 'default/a', and not an ObjectRef"):
            Outcome().delete("default/a")


class Decorator(unittest.TestCase):
    def setUp(self):
        globals().pop("Plugin", None)

    def test_every_member_of_the_manifest_can_be_said(self):
        @controller(
            name="p",
            version="1.0.0",
            reconciles=Selection(
                "v1/Service",
                labels={"matchLabels": {"app": "web"}},
                field_selector="spec.type=ClusterIP",
                namespaces=["a"],
                also_enqueued_by=["v1/Endpoints"],
            ),
            reads=[
                "v1/Service",
                Read("v1/Endpoints", [".subsets"], namespaces=["a"]),
                Read("v1/Pod", labels="app=web", field_selector="spec.nodeName=n"),
                Read("v1/ConfigMap"),
            ],
            indexes=[Index("node", "v1/Pod", [".spec.nodeName"])],
            writes=[
                keeps_children("v1/ConfigMap"),
                Write("apps/v1/Deployment", ["patch"], subresource="status"),
            ],
            limits=Limits(memory_bytes=1, fuel=2, timeout_milliseconds=3, concurrency=4),
            config_schema={"type": "object"},
        )
        def reconcile(request, host):
            return Outcome()

        subject = {
            "kind": "v1/Service",
            "labels": {"matchLabels": {"app": "web"}},
            "fieldSelector": "spec.type=ClusterIP",
            "namespaces": ["a"],
            "alsoEnqueuedBy": ["v1/Endpoints"],
        }
        wanted = {
            "name": "p",
            "version": "1.0.0",
            "reconciles": [subject],
            "reads": [
                {"kind": "v1/Service"},
                {"kind": "v1/Endpoints", "fields": [".subsets"], "namespaces": ["a"]},
                {"kind": "v1/Pod", "labels": "app=web", "fieldSelector": "spec.nodeName=n"},
                {"kind": "v1/ConfigMap"},
            ],
            "indexes": [{"name": "node", "kind": "v1/Pod", "paths": [".spec.nodeName"]}],
            "writes": [
                {"kind": "v1/ConfigMap", "verbs": ["apply", "delete"], "children": True},
                {"kind": "apps/v1/Deployment", "verbs": ["patch"], "subresource": "status"},
            ],
            "limits": {"memoryBytes": 1, "fuel": 2, "timeoutMilliseconds": 3, "concurrency": 4},
            "configSchema": {"type": "object"},
        }
        self.assertEqual(reconcile.manifest.to_document(), wanted)

    def test_a_wrong_member_is_an_error_of_the_import(self):
        for message, members in (
            (r'reads\[0\]\.kind: "Pod" is not a kind', {"reads": ["Pod"]}),
            ("reads\\[0\\].fields: invalid type: string", {"reads": [Read("v1/Pod", ".spec")]}),
            ("unknown variant `watch`", {"writes": [Write("v1/Pod", ["watch"])]}),
            ('name "P" is not a DNS label', {"name": "P"}),
            ("limits.fuel: invalid type: floating point", {"limits": Limits(fuel=1.5)}),
            ("configSchema is not JSON", {"config_schema": {"x": float("nan")}}),
            ("configSchema is not JSON", {"config_schema": {"x": object()}}),
            ("invalid type: .* expected struct Read", {"reads": [("v1/Pod", [".spec"])]}),
        ):
            with self.subTest(message), self.assertRaisesRegex(ManifestError, message):
                controller(**{"name": "p", "version": "1", "singleton": True, **members})
        with self.assertRaisesRegex(TypeError, "field_selectors"):
            Read("v1/Pod", field_selectors="a=b")

    def test_a_module_has_one_plugin(self):
        def reconcile(request, host):
            return Outcome()

        def another(request, host):
            return Outcome()

        controller(name="p", version="1", singleton=True)(reconcile)
        with self.assertRaisesRegex(TypeError, "two plugins"):
            controller(name="q", version="1", singleton=True)(another)

    def test_a_module_can_be_loaded_again(self):
        def reconcile(request, host):
            return Outcome()

        for version in ("1", "2"):
            made = controller(name="p", version=version, singleton=True)(reconcile)
        self.assertIn('"version":"2"', made.describe())


class Package(unittest.TestCase):
    def test_it_is_imported_without_the_bindings_and_without_the_fakes(self):
        self.assertIsNone(importlib.util.find_spec("wit_world"))
        code = "import pilothouse, sys; print('pilothouse.testing' in sys.modules)"
        found = subprocess.run(
            [sys.executable, "-c", code], cwd=SDK, capture_output=True, text=True
        )
        self.assertEqual((found.stdout, found.stderr), ("False\n", ""))

    def test_it_is_written_in_the_python_that_it_asks_for(self):
        files = list((SDK / "pilothouse").rglob("*.py"))
        self.assertGreater(len(files), 20)
        for file in files:
            ast.parse(file.read_text(), str(file), feature_version=(3, 10))

    def test_it_imports_the_standard_library_alone(self):
        known = {*sys.stdlib_module_names, "wit_world", "componentize_py_types"}
        for file in (SDK / "pilothouse").rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.level == 0:
                    names = [node.module]
                for name in names:
                    self.assertIn(name.split(".")[0], known, file)

    def test_a_component_imports_nothing_later(self):
        """Inside of a function an import finds no files."""
        for file in (SDK / "pilothouse").glob("*.py"):
            for function in ast.walk(ast.parse(file.read_text())):
                if isinstance(function, ast.FunctionDef):
                    imports = (ast.Import, ast.ImportFrom)
                    found = [each for each in ast.walk(function) if isinstance(each, imports)]
                    self.assertEqual(found, [], file)


if __name__ == "__main__":
    unittest.main()
