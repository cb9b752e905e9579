"""The smallest controller: for a ConfigMap labelled `hello: "true"`, one with a greeting."""

from pilothouse import Outcome, Read, Selection, Write, controller, owner_reference


@controller(
    name="hello-python",
    version="0.1.0",
    reconciles=Selection("v1/ConfigMap", labels="hello=true"),
    reads=[Read("v1/ConfigMap", [".data.who"])],
    writes=[Write("v1/ConfigMap", ["apply"])],
)
def reconcile(request, host):
    key, source = request.key, request.object
    if source is None:
        # The ConfigMap is gone. Its greeting names it as owner, so the garbage collector deletes
        # the greeting.
        return Outcome()
    who = source.get("data", {}).get("who", "world")
    host.info("greeting", who=who)
    greeting = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": key.namespace,
            "name": f"{key.name}-greeting",
            "ownerReferences": [owner_reference(key, source["metadata"]["uid"])],
        },
        "data": {"greeting": f"Hello, {who}!"},
    }
    return Outcome().apply(greeting)
