"""Controllers and objects for tests of the fake cluster."""

import unittest

from pilothouse import Outcome, Write, controller
from pilothouse.testing import FakeCluster

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


def turned(cluster):
    """What becomes of the writes of a reconcile."""
    cluster.reconcile()
    return cluster.write()


class Turns(unittest.TestCase):
    """A test of turns: its controller returns what `self.outcome` makes of the request."""

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
        self.outcome = lambda request: Outcome()
        cluster.reconcile()
        return [(effect.verb, effect.result) for effect in self.seen[-1].previous]

    def stored(self, cluster, name="a"):
        return cluster.object(CONFIG_MAP, "default", name)
