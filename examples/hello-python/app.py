"""The smallest controller: a ConfigMap labelled `hello: "true"` gets a ConfigMap with a greeting beside it."""

import json

from wit_world import exports
from wit_world.exports.plugin import Next_OnChange, Outcome
from wit_world.imports import log
from wit_world.imports.changes import Action_Apply, Apply, Stage

MANIFEST = {
    "name": "hello-python",
    "version": "0.1.0",
    "reconciles": [{"kind": "v1/ConfigMap", "labels": "hello=true"}],
    "reads": [{"kind": "v1/ConfigMap", "fields": [".data.who"]}],
    "writes": [{"kind": "v1/ConfigMap", "verbs": ["apply"]}],
}


class Plugin(exports.Plugin):
    def describe(self) -> str:
        return json.dumps(MANIFEST)

    def reconcile(self, request) -> Outcome:
        if request.object is None:
            # The ConfigMap is gone. Its greeting names it as owner, so the garbage collector
            # deletes the greeting.
            return Outcome([], Next_OnChange())
        key, source = request.key, json.loads(request.object)
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
