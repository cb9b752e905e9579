"""The fake cluster does what the Rust SDK's does, which decides with the host's own code."""

import json
import unittest
from pathlib import Path

from pilothouse import ObjectRef, Outcome, Write, keeps_children
from pilothouse.outcome import Stage
from pilothouse.testing import FakeCluster
from test_contract import record
from things import EVERY_VERB, made

CASES = json.loads((Path(__file__).parents[2] / "cases/fake_cluster.json").read_text())
SITE = "example.com/v1/Site"


class Replay:
    """A case, step by step."""

    def __init__(self):
        plugin = made(
            lambda request, host: self.outcome,
            singleton=True,
            reads=[SITE],
            writes=[
                Write(SITE, EVERY_VERB),
                Write(SITE, ["apply"], subresource="status"),
                keeps_children(SITE),
            ],
        )
        self.cluster = FakeCluster(plugin)

    def add(self, value):
        self.cluster.add(value)

    def delete(self, name):
        self.cluster.delete(SITE, "default", name)

    def fail(self, said):
        self.cluster.fail(said["verb"], SITE, said["error"], **counts(said))

    def turn(self, stages):
        """What becomes of the writes of an outcome."""
        self.outcome = Outcome()
        for stage in stages:
            actions = [action(each) for each in stage["actions"]]
            self.outcome.stages.append(Stage(actions, stage["always"]))
        self.cluster.reconcile()
        return [[each.verb, each.object.name, each.result] for each in self.cluster.write()]

    def objects(self):
        """The objects by their names, but for what all have in common and their versions."""
        found = {name: self.cluster.object(SITE, "default", name) for name in "abcd"}
        there = {name: value for name, value in found.items() if value is not None}
        for value in there.values():
            del value["apiVersion"], value["kind"]
            for name in ("namespace", "name", "creationTimestamp", "resourceVersion"):
                del value["metadata"][name]
        return there


def counts(said):
    return {name: said[name] for name in ("after", "times")}


def action(said):
    ((name, members),) = said.items()
    options = {each.replace("-", "_"): value for each, value in members.items()}
    value = options.get("object", {})
    if set(value) == {"kind", "namespace", "name"}:
        options["object"] = ObjectRef(**value)
    return record(name)(**options)


class SharedCases(unittest.TestCase):
    def test_the_fake_cluster_does_what_the_shared_cases_say(self):
        self.assertEqual(len(CASES), 40)
        for number, steps in enumerate(CASES):
            replay = Replay()
            for place, step in enumerate(steps):
                with self.subTest(case=number, step=place):
                    if "outcome" in step:
                        self.assertEqual(replay.turn(step["outcome"]), step["effects"])
                        self.assertEqual(replay.objects(), step["objects"])
                    else:
                        ((name, said),) = step.items()
                        getattr(replay, name)(said)


if __name__ == "__main__":
    unittest.main()
