"""The SDK agrees with `wit/`: with the cases, the manifest's schema, and the records of actions."""

import dataclasses
import json
import re
import unittest

from pilothouse import ObjectRef, Outcome, changes, manifest
from pilothouse.check import ManifestError, read_manifest
from pilothouse.controller import Controller
from pilothouse.outcome import Terminal
from pilothouse.shapes import camel
from pilothouse.testing import FakeCluster

from cases import WIT, cases, whole


class Cases(unittest.TestCase):
    def test_a_manifest_is_refused_when_the_host_refuses_it(self):
        all_cases = cases("manifests.json")
        self.assertGreaterEqual(len(all_cases), 82)
        for case in all_cases:
            with self.subTest(case["case"]):
                try:
                    read_manifest(whole(case["manifest"]))
                    refused = None
                except ManifestError as error:
                    refused = str(error)
                self.assertEqual(refused, case.get("refused"))

    def test_an_outcome_is_refused_when_the_host_refuses_it(self):
        all_cases = cases("actions.json")
        self.assertGreaterEqual(len(all_cases), 51)
        for case in all_cases:
            with self.subTest(case["case"]):
                self.assertEqual(refusal(case), case.get("refused"))


def refusal(case):
    """Why the fake cluster refuses the actions of a case."""

    def asks(request, host):
        outcome = Outcome()
        for said in case["actions"]:
            outcome.add(action(said))
        return outcome

    asking = Controller(read_manifest(whole(case["manifest"])), asks)
    try:
        FakeCluster(asking, *case["objects"]).reconcile()
    except Terminal as error:
        return str(error)
    return None


def action(said):
    """An action of a case."""
    ((name, members),) = said.items()
    options = {each.replace("-", "_"): value for each, value in members.items()}
    if isinstance(options.get("object"), str):
        kind, _, key = options["object"].partition(" ")
        options["object"] = ObjectRef(kind, *key.split("/"))
    return record(name)(**options)


def record(name):
    """The class of an action: `delete-all`."""
    return getattr(changes, "".join(map(str.capitalize, re.split("[-_]", name))))


class Schema(unittest.TestCase):
    def test_every_member_of_a_manifest_can_be_said(self):
        schema = json.loads((WIT / "manifest.schema.json").read_text())
        of = {"reconciles": "Selection", "reads": "Read", "index": "Index", "writes": "Write"}
        of["limits"] = "Limits"
        documents = {"Manifest": schema}
        for name, definition in schema["$defs"].items():
            if "properties" in definition:
                documents[of[name]] = definition
        self.assertEqual(len(documents), 6)
        for name, definition in documents.items():
            with self.subTest(name):
                fields = dataclasses.fields(getattr(manifest, name))
                members = {camel(field.name) for field in fields}
                self.assertEqual(members, set(definition["properties"]))
                required = {camel(each.name) for each in fields if each.metadata["required"]}
                self.assertEqual(required, set(definition.get("required", ())))


class Records(unittest.TestCase):
    text = (WIT / "changes.wit").read_text()

    def block(self, kind, name):
        """The names of a record's fields, or of a variant's cases, in their order."""
        found = re.search(rf"^  {kind} {name} {{$(.*?)^  }}$", self.text, re.S | re.M)
        lines = [line.strip() for line in found.group(1).splitlines()]
        lines = [line for line in lines if line and not line.startswith("//")]
        return [re.match(r"[a-z-]+", line).group().replace("-", "_") for line in lines]

    def test_an_action_has_the_fields_of_its_record_in_their_order(self):
        names = self.block("variant", "action")
        self.assertEqual(len(names), 10)
        for name in names:
            with self.subTest(name):
                fields = [field.name for field in dataclasses.fields(record(name))]
                self.assertEqual(fields, self.block("record", name.replace("_", "-")))
                # No host offers calls yet, so an outcome has no method for them.
                self.assertEqual(callable(getattr(Outcome, name, None)), name != "call")

    def test_a_choice_has_the_cases_of_its_enum(self):
        for name, choices in (
            ("patch-type", changes.PATCH_TYPES),
            ("propagation", changes.PROPAGATIONS),
            ("event-type", changes.EVENT_TYPES),
        ):
            with self.subTest(name):
                found = [case.replace("_", "-") for case in self.block("enum", name)]
                self.assertEqual(found, list(choices))


if __name__ == "__main__":
    unittest.main()
