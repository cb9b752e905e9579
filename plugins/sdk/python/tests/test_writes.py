"""The fake cluster writes what an API server would."""

import unittest
from datetime import datetime, timezone

from pilothouse import (
    ObjectRef,
    Outcome,
    Write,
)
from pilothouse.testing import FakeCluster

from things import CONFIG_MAP, Turns, made, thing, turned


class Writes(Turns):
    def test_an_apply_adds_its_fields_and_takes_back_what_it_leaves_out(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"own": "1"}))
        body = thing(CONFIG_MAP, "a", data={"x": "1", "y": "2"})
        self.assertEqual(self.effects(cluster, Outcome().apply(body)), [("apply", "done")])
        self.assertEqual(self.stored(cluster)["data"], {"own": "1", "x": "1", "y": "2"})
        self.assertEqual(self.effects(cluster, Outcome().apply(body)), [("apply", "unchanged")])
        del body["data"]["y"]
        self.effects(cluster, Outcome().apply(body))
        self.assertEqual(self.stored(cluster)["data"], {"own": "1", "x": "1"})

    def test_an_apply_is_unchanged_while_its_own_side_is_as_it_was_left(self):
        cluster = self.cluster()
        body = thing(CONFIG_MAP, "a", data={"x": "1"})
        status = thing(CONFIG_MAP, "a", status={"ready": True})
        self.effects(cluster, Outcome().apply(body))
        self.effects(cluster, Outcome().apply(status, subresource="status"))
        both = Outcome().apply(body).apply(status, subresource="status")
        unchanged = [("apply", "unchanged"), ("apply", "unchanged")]
        self.assertEqual(self.effects(cluster, both), unchanged)
        cluster.add({**self.stored(cluster), "data": {"x": "1", "y": "others"}})
        changed = [("apply", "done"), ("apply", "done")]
        self.assertEqual(self.effects(cluster, both), changed)

    def test_an_apply_of_anothers_field_is_a_conflict_without_force(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"x": "others"}))
        body = thing(CONFIG_MAP, "a", data={"x": "mine"})
        self.assertEqual(self.effects(cluster, Outcome().apply(body)), [("apply", "conflict")])
        self.assertEqual(self.seen[-1].attempt, 2)
        self.effects(cluster, Outcome().apply(body, force=True))
        self.assertEqual(self.stored(cluster)["data"], {"x": "mine"})
        self.assertEqual(self.seen[-1].attempt, 1)

    def test_status_is_written_through_its_subresource_alone(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={}))
        body = thing(CONFIG_MAP, "a", data={"x": "1"}, status={"ready": True})
        self.effects(cluster, Outcome().apply(body, subresource="status"))
        self.assertEqual(
            (self.stored(cluster)["data"], self.stored(cluster)["status"]), ({}, {"ready": True})
        )
        self.effects(cluster, Outcome().apply({**body, "status": {"ready": False}}))
        self.assertEqual(self.stored(cluster)["status"], {"ready": True})

    def test_an_update_replaces_what_the_snapshot_shows(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"x": "1"}))
        new = {**self.stored(cluster), "data": {"y": "2"}}
        self.assertEqual(self.effects(cluster, Outcome().update(new)), [("update", "done")])
        self.assertEqual(self.stored(cluster)["data"], {"y": "2"})
        same = Outcome().update(self.stored(cluster))
        self.assertEqual(self.effects(cluster, same), [("update", "unchanged")])
        gone = Outcome().update(thing(CONFIG_MAP, "b"))
        self.assertEqual(self.effects(cluster, gone), [("update", "not-found")])

    def test_patches_change_parts(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"x": "1", "y": "2"}))
        self.effects(cluster, Outcome().patch(ref, {"data": {"x": None, "z": "3"}}))
        self.assertEqual(self.stored(cluster)["data"], {"y": "2", "z": "3"})
        steps = [
            {"op": "test", "path": "/data/y", "value": "2"},
            {"op": "move", "from": "/data/y", "path": "/data/a~1b"},
            {"op": "add", "path": "/list", "value": [1]},
            {"op": "add", "path": "/list/-", "value": 2},
        ]
        patch = Outcome().patch(ref, steps, patch_type="json-patch")
        self.assertEqual(self.effects(cluster, patch), [("patch", "done")])
        self.assertEqual(self.stored(cluster)["data"], {"a/b": "2", "z": "3"})
        self.assertEqual(self.stored(cluster)["list"], [1, 2])
        self.assertEqual(self.effects(cluster, patch), [("patch", "conflict")])

    def test_finalizers_delay_a_deletion(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        cluster = self.cluster(thing(CONFIG_MAP, "a"))
        self.effects(cluster, Outcome().finalizer(ref, "example.com/f"))
        cluster.at(datetime(2026, 1, 2, tzinfo=timezone.utc))
        cluster.delete(*ref)
        self.assertEqual(
            self.stored(cluster)["metadata"]["deletionTimestamp"], "2026-01-02T00:00:00Z"
        )
        removed = Outcome().finalizer(ref, "example.com/f", present=False)
        self.assertEqual(self.effects(cluster, removed), [("finalizer", "done")])
        self.assertIsNone(self.stored(cluster))
        self.assertEqual(self.effects(cluster, removed), [("finalizer", "unchanged")])

    def test_a_generated_name_is_the_same_for_the_same_state(self):
        body = thing(CONFIG_MAP, "")
        del body["metadata"]["name"]
        body["metadata"]["generateName"] = "a-"
        cluster = self.cluster()
        twice = Outcome().create(body).create(body)
        self.effects(cluster, twice)
        first, second = (effect.object.name for effect in self.seen[-1].previous)
        self.assertTrue(first.startswith("a-") and first != second)
        self.assertEqual(
            self.effects(cluster, twice), [("create", "already-exists"), ("create", "skipped")]
        )

    def test_a_finalizer_that_is_so_already_is_not_sent(self):
        has = thing(CONFIG_MAP, "a")
        has["metadata"]["finalizers"] = ["example.com/f"]
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        outcome = Outcome().finalizer(ref, "example.com/f").finalizer(ref, "x", present=False)
        wanted = [("finalizer", "unchanged"), ("finalizer", "unchanged")]
        self.assertEqual(self.effects(self.cluster(has), outcome), wanted)

    def test_a_null_and_an_empty_object_claim_nothing_of_others(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"x": "others"}))
        body = thing(CONFIG_MAP, "a", data={}, more={"x": None})
        self.assertEqual(self.effects(cluster, Outcome().apply(body)), [("apply", "done")])
        self.assertEqual(self.stored(cluster)["data"], {"x": "others"})
        self.assertNotIn("more", self.stored(cluster))

    def test_a_status_that_is_so_already_is_not_updated(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", status={"ready": True}))
        same = Outcome().update(self.stored(cluster), subresource="status")
        self.assertEqual(self.effects(cluster, same), [("update", "unchanged")])
        other = {**self.stored(cluster), "status": {}}
        effects = self.effects(cluster, Outcome().update(other, subresource="status"))
        self.assertEqual(effects, [("update", "done")])

    def test_owners_are_merged_one_by_one(self):
        def owner(uid):
            return {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid}

        theirs, ours = thing(CONFIG_MAP, "a"), thing(CONFIG_MAP, "o")
        theirs["metadata"]["ownerReferences"] = [owner("u2")]
        ours["metadata"]["uid"] = "u3"
        cluster = self.cluster(theirs, ours)
        body = thing(CONFIG_MAP, "a")
        body["metadata"]["ownerReferences"] = [owner("u3")]
        self.effects(cluster, Outcome().apply(body))
        owners = self.stored(cluster)["metadata"]["ownerReferences"]
        self.assertEqual(owners, [owner("u2"), owner("u3")])
        self.effects(cluster, Outcome().apply(thing(CONFIG_MAP, "a")))
        self.assertEqual(self.stored(cluster)["metadata"]["ownerReferences"], [owner("u2")])

    def test_an_object_that_is_being_deleted_takes_no_new_finalizers(self):
        ending = thing(CONFIG_MAP, "a")
        ending["metadata"] |= {"finalizers": ["x/f"], "deletionTimestamp": "2026-01-02T00:00:00Z"}
        outcome = Outcome().finalizer(ObjectRef(CONFIG_MAP, "default", "a"), "x/g")
        self.assertEqual(self.effects(self.cluster(ending), outcome), [("finalizer", "invalid")])

    def test_a_generated_name_is_none_that_the_reconcile_has_read(self):
        body = thing(CONFIG_MAP, "")
        del body["metadata"]["name"]
        body["metadata"]["generateName"] = "one-"

        def keeps_three(request, host):
            outcome = Outcome()
            for _ in range(3 - len(host.list(CONFIG_MAP, "default"))):
                outcome.create(body)
            return outcome

        writes = [Write(CONFIG_MAP, ["create"])]
        manifest = {"singleton": True, "reads": [CONFIG_MAP], "writes": writes}
        cluster = FakeCluster(made(keeps_three, **manifest))
        made_names = [effect.object.name for effect in turned(cluster)]
        for _ in range(5):
            cluster.delete(CONFIG_MAP, "default", made_names.pop(0))
            (effect,) = turned(cluster)
            self.assertEqual(effect.result, "done")
            made_names.append(effect.object.name)
        self.assertEqual(len(set(made_names)), 3)

    def test_a_body_may_name_any_version(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a"))
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        self.effects(cluster, Outcome().delete(ref, resource_version="1"))
        self.assertEqual([effect.result for effect in self.seen[-1].previous], ["conflict"])
        self.assertEqual(self.effects(cluster, Outcome().delete(ref)), [("delete", "done")])

    def test_the_server_counts_versions_and_generations(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", spec={"x": 1}))
        self.effects(cluster, Outcome().create(thing(CONFIG_MAP, "b", spec={"x": 1})))
        before = self.stored(cluster, "b")["metadata"]
        ref = ObjectRef(CONFIG_MAP, "default", "b")
        self.effects(cluster, Outcome().patch(ref, {"metadata": {"labels": {"y": "z"}}}))
        labelled = self.stored(cluster, "b")["metadata"]
        self.effects(cluster, Outcome().patch(ref, {"spec": {"x": 2}}))
        changed = self.stored(cluster, "b")["metadata"]
        generations = [each["generation"] for each in (before, labelled, changed)]
        self.assertEqual(generations, [1, 1, 2])
        self.assertEqual(len({each["resourceVersion"] for each in (before, labelled, changed)}), 3)
        self.assertEqual(before["uid"], changed["uid"])

    def test_an_object_that_a_test_changes_gets_a_new_version(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a"))
        stored = self.stored(cluster)
        cluster.add({**stored, "data": {"x": "1"}})
        version = self.stored(cluster)["metadata"]["resourceVersion"]
        self.assertNotEqual(version, stored["metadata"]["resourceVersion"])


if __name__ == "__main__":
    unittest.main()
