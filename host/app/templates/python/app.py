"""Copies the data of each ConfigMap with the label `copy=true` into every Namespace with the label
`copies=wanted`."""

from pilothouse import Outcome, Read, Selection, controller, keeps_children

CONFIG_MAP = "v1/ConfigMap"
NAMESPACE = "v1/Namespace"


@controller(
    name="@name@",
    version="0.1.0",
    reconciles=Selection(CONFIG_MAP, labels="copy=true"),
    reads=[Read(CONFIG_MAP, [".data"]), Read(NAMESPACE, [".metadata.name"])],
    writes=[keeps_children(CONFIG_MAP)],
)
def reconcile(request, host):
    key, original = request.key, request.object
    if original is None:
        return Outcome().children([])  # it is gone, or has lost its label: so do its copies
    # The list is recorded: when another Namespace wants copies, this runs again.
    wanted = host.list(NAMESPACE, labels="copies=wanted")
    names = [namespace["metadata"]["name"] for namespace in wanted]
    others = [name for name in names if name != key.namespace]
    return Outcome().children(copy_in(namespace, key.name, original) for namespace in others)


def copy_in(namespace, name, original):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name},
        "data": original.get("data", {}),
    }
