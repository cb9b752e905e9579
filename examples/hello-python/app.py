"""The smallest controller: a ConfigMap labelled `hello: "true"` gets a ConfigMap with a greeting beside it."""

import json

from wit_world import Next_OnChange, Outcome, WitWorld
from wit_world.imports import cluster, log
from wit_world.imports.changes import Action_Apply, Apply, Stage
from wit_world.imports.manifest import Limits, Manifest, Read, Selection, Subject_Each, Verb, Write
from wit_world.imports.types import Kind, LabelRequirement_Equals

CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap")


class WitWorld(WitWorld):
    def describe(self) -> Manifest:
        labelled = Selection(CONFIG_MAP, [LabelRequirement_Equals(("hello", "true"))], None, [], [])
        return Manifest(
            name="hello-python",
            version="0.1.0",
            subject=Subject_Each(labelled),
            reads=[Read(CONFIG_MAP, [".data.who"], namespaces=[], labels=[], field_selector=None)],
            indexes=[],
            writes=[Write(CONFIG_MAP, None, [Verb.APPLY], False)],
            limits=Limits(None, None, None, None),
            config_schema=None,
        )

    def reconcile(self, request) -> Outcome:
        key = request.key
        found = cluster.get(CONFIG_MAP, key)
        if found is None:
            # The ConfigMap is gone. Its greeting names it as owner, so the garbage collector
            # deletes the greeting.
            return Outcome([], Next_OnChange())
        source = json.loads(found)
        who = source.get("data", {}).get("who", "world")
        log.log(log.Level.INFO, "greeting", [("who", who)])

        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": key.name, "uid": source["metadata"]["uid"]}
        greeting = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "namespace": key.namespace,
                "name": f"{key.name}-greeting",
                "ownerReferences": [owner],
            },
            "data": {"greeting": f"Hello, {who}!"},
        }
        apply = Action_Apply(Apply(json.dumps(greeting), None, False))
        return Outcome([Stage([apply], always=False)], Next_OnChange())
