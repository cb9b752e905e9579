"""The controller without a cluster: `python3 -m unittest`."""

import unittest

from app import CONFIG_MAP, reconcile
from pilothouse.testing import FakeCluster


def original(text):
    metadata = {"namespace": "default", "name": "banner", "labels": {"copy": "true"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


def namespace(name, copies):
    metadata = {"name": name, "labels": {"copies": copies}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


class Copies(unittest.TestCase):
    def run_due(self, cluster):
        """Runs what is due. Nothing may fail."""
        for run in cluster.run_due():
            self.assertIsNone(run.error, run.key)

    def banner(self, cluster, namespace):
        """The text of the banner in a Namespace, if it has one."""
        found = cluster.object(CONFIG_MAP, namespace, "banner")
        return found and found["data"]["text"]

    def test_namespaces_that_want_copies_have_them(self):
        namespaces = [namespace("team-a", "wanted"), namespace("team-b", "no")]
        cluster = FakeCluster(reconcile, original("hello"), *namespaces)
        self.run_due(cluster)
        self.assertEqual(self.banner(cluster, "team-a"), "hello")
        self.assertIsNone(self.banner(cluster, "team-b"))
        cluster.add(namespace("team-a", "no"), namespace("team-b", "wanted"))
        self.run_due(cluster)
        self.assertIsNone(self.banner(cluster, "team-a"))
        self.assertEqual(self.banner(cluster, "team-b"), "hello")

    def test_copies_follow_their_original(self):
        cluster = FakeCluster(reconcile, original("hello"), namespace("team-a", "wanted"))
        self.run_due(cluster)
        cluster.add(original("goodbye"))
        self.run_due(cluster)
        self.assertEqual(self.banner(cluster, "team-a"), "goodbye")
        cluster.delete(CONFIG_MAP, "default", "banner")
        self.run_due(cluster)
        self.assertIsNone(self.banner(cluster, "team-a"))

    def test_the_originals_own_namespace_needs_no_copy(self):
        cluster = FakeCluster(reconcile, original("hello"), namespace("default", "wanted"))
        outcome = cluster.reconcile("default", "banner")
        (action,) = outcome.actions
        self.assertEqual(list(action.objects), [])


if __name__ == "__main__":
    unittest.main()
