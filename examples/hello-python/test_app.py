"""The controller without a cluster. Run it with `make test-python`."""

import unittest

from app import reconcile
from pilothouse import ObjectRef
from pilothouse.testing import FakeCluster, Run


def source(data):
    metadata = {"namespace": "default", "name": "a", "uid": "1", "labels": {"hello": "true"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def greeting(data):
    cluster = FakeCluster(reconcile, source(data))
    cluster.turn("default", "a")
    return cluster.object("v1/ConfigMap", "default", "a-greeting")


class Hello(unittest.TestCase):
    def test_it_greets_whom_the_source_names_and_the_world_otherwise(self):
        self.assertEqual(greeting({"who": "moon"})["data"], {"greeting": "Hello, moon!"})
        self.assertEqual(greeting({})["data"], {"greeting": "Hello, world!"})

    def test_the_greeting_goes_with_its_source(self):
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}
        self.assertEqual(greeting({})["metadata"]["ownerReferences"], [owner])

    def test_a_source_that_is_gone_needs_nothing(self):
        outcome = FakeCluster(reconcile).reconcile("default", "a")
        self.assertEqual(outcome.actions, [])

    def test_a_new_name_is_greeted_anew(self):
        cluster = FakeCluster(reconcile, source({"who": "moon"}))
        cluster.run_due()
        self.assertEqual(cluster.run_due(), [], "nothing is due")
        cluster.add(source({"who": "sun"}))
        runs = cluster.run_due()
        self.assertEqual(set(runs), {Run(ObjectRef("v1/ConfigMap", "default", "a"))})
        found = cluster.object("v1/ConfigMap", "default", "a-greeting")
        self.assertEqual(found["data"], {"greeting": "Hello, sun!"})


if __name__ == "__main__":
    unittest.main()
