"""What the API server sets in `metadata`, and who owns which field, in the fake cluster."""

import unittest
from datetime import datetime, timezone

from pilothouse import Outcome, Write
from pilothouse.testing import FakeCluster
from things import EVERY_VERB, TEAM, made

DEPLOYMENT = "apps/v1/Deployment"
DAY = datetime(1970, 1, 2, tzinfo=timezone.utc)


def team(kind=TEAM, **members):
    """An object with these members, `metadata` besides its name."""
    api_version, _, name = kind.rpartition("/")
    metadata = {"namespace": "default", "name": "a", **members.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": name, "metadata": metadata, **members}


class ServerFields(unittest.TestCase):
    def setUp(self):
        self.outcome = Outcome()
        plugin = made(
            lambda request, host: self.outcome,
            singleton=True,
            reads=[TEAM, DEPLOYMENT],
            writes=[Write(TEAM, EVERY_VERB)],
        )
        self.cluster = FakeCluster(plugin)
        self.cluster.at(DAY)

    def act(self, outcome):
        """What became of the only write of an outcome."""
        self.outcome = outcome
        self.cluster.reconcile()
        return self.cluster.write()[0]

    def apply(self, force=False, **members):
        return self.act(Outcome().apply(team(**members), force=force))

    def stored(self, kind=TEAM):
        return self.cluster.object(kind, "default", "a")

    def metadata(self):
        return self.stored()["metadata"]

    def test_an_object_that_is_added_has_what_the_server_sets(self):
        self.cluster.add(team(spec={"size": 1}))
        metadata = self.metadata()
        self.assertEqual(
            metadata,
            {
                "namespace": "default",
                "name": "a",
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "creationTimestamp": "1970-01-02T00:00:00Z",
                "generation": 1,
            },
        )

    def test_an_object_keeps_what_the_test_says_of_it(self):
        given = {
            "uid": "u1",
            "resourceVersion": "7",
            "generation": 4,
            "creationTimestamp": "2026-01-02T03:04:05Z",
        }
        self.cluster.add(team(metadata=given, spec={}))
        self.assertEqual(self.metadata(), {"namespace": "default", "name": "a", **given})

    def test_objects_that_are_added_and_made_have_uids_of_their_own(self):
        self.cluster.add(team(), team(metadata={"name": "b"}))
        self.act(Outcome().create(team(metadata={"name": "c"})))
        objects = [self.cluster.object(TEAM, "default", name) for name in "abc"]
        uids = {each["metadata"]["uid"] for each in objects}
        self.assertEqual(len(uids), 3)

    def test_an_object_that_is_changed_stays_the_same_and_its_generation_moves(self):
        self.cluster.add(team(spec={"size": 1}))
        before = self.metadata()
        self.cluster.at(datetime(1971, 1, 1, tzinfo=timezone.utc))
        self.cluster.add(team(spec={"size": 2}))
        after = self.metadata()
        for name in ("uid", "creationTimestamp"):
            self.assertEqual(before[name], after[name])
        self.assertEqual(after["generation"], 2)
        self.assertNotEqual(before["resourceVersion"], after["resourceVersion"])
        self.cluster.add(team(metadata={"labels": {"x": "y"}}, spec={"size": 2}, status={}))
        self.assertEqual(self.metadata()["generation"], 2)

    def test_another_object_in_the_place_of_one_begins_anew(self):
        self.cluster.add(team(spec={"size": 1}))
        self.cluster.add(team(spec={"size": 2}))
        self.cluster.at(datetime(1970, 1, 1, tzinfo=timezone.utc))
        self.cluster.add(team(metadata={"uid": "another"}, spec={}))
        self.assertEqual(self.metadata()["generation"], 1)
        self.assertEqual(self.metadata()["creationTimestamp"], "1970-01-01T00:00:00Z")

    def test_a_kind_without_a_spec_has_no_generation(self):
        self.cluster.add(team(data={"a": "b"}))
        self.cluster.add(team(data={"a": "c"}))
        self.assertNotIn("generation", self.metadata())

    def test_the_beginning_of_a_deletion_moves_the_generation_once(self):
        self.cluster.add(team(metadata={"finalizers": ["example.com/f"]}, spec={}))
        self.cluster.delete(TEAM, "default", "a")
        metadata = self.metadata()
        self.assertEqual(metadata["deletionTimestamp"], "1970-01-02T00:00:00Z")
        self.assertEqual(metadata["generation"], 2)
        self.cluster.delete(TEAM, "default", "a")
        self.assertEqual(self.metadata(), metadata)

    def test_annotations_move_the_generation_of_a_deployment_alone(self):
        annotated = {"annotations": {"a": "b"}}
        for kind, generation in ((TEAM, 1), (DEPLOYMENT, 2)):
            self.cluster.add(team(kind, spec={}))
            self.cluster.add(team(kind, spec={}, metadata=annotated))
            self.assertEqual(self.stored(kind)["metadata"]["generation"], generation)

    def assert_conflict(self, effect):
        self.assertEqual(effect.result, "conflict")
        self.assertIn("another manager: .spec.size", effect.text)

    def test_a_value_that_somebody_else_has_changed_is_no_longer_the_plugins(self):
        self.assertEqual(self.apply(spec={"size": 1}).result, "done")
        self.cluster.add(team(spec={"size": 2}))
        self.assert_conflict(self.apply(spec={"size": 3}))
        # The plugin does not remove it either.
        self.apply(spec={"colour": "red"})
        self.assertEqual(self.stored()["spec"], {"size": 2, "colour": "red"})
        self.apply(force=True, spec={"size": 3})
        self.assertEqual(self.stored()["spec"], {"size": 3})

    def test_a_value_that_somebody_else_leaves_as_it_is_stays_the_plugins(self):
        self.apply(spec={"size": 1})
        self.cluster.add(team(spec={"size": 1, "colour": "red"}))
        self.assertEqual(self.apply(spec={"size": 3}).result, "done")
        self.apply(spec={"height": 1})
        self.assertEqual(self.stored()["spec"], {"colour": "red", "height": 1})

    def test_a_value_that_both_have_stays_when_the_plugin_leaves_it_out(self):
        self.cluster.add(team(spec={"size": 1}))
        self.apply(spec={"size": 1, "colour": "red"})
        self.assert_conflict(self.apply(spec={"size": 3}))
        self.apply(spec={"colour": "blue"})
        self.assertEqual(self.stored()["spec"], {"size": 1, "colour": "blue"})

    def test_an_update_of_the_plugin_is_not_an_apply(self):
        self.apply(spec={"size": 1})
        whole = self.stored()
        whole["spec"]["size"] = 4
        self.act(Outcome().update(whole))
        self.assert_conflict(self.apply(spec={"size": 3}))

    def test_nothing_of_an_object_is_owned_when_it_is_made_again(self):
        self.apply(spec={"size": 1})
        self.cluster.delete(TEAM, "default", "a")
        self.cluster.add(team(spec={"size": 1}))
        self.assert_conflict(self.apply(spec={"size": 3}))


if __name__ == "__main__":
    unittest.main()
