"""The fake cluster does an outcome as the host would: what is sent, on which conditions, and
what a failure stops."""

import unittest

from pilothouse import (
    Effect,
    ObjectRef,
    Outcome,
    Read,
    Retry,
    Terminal,
    Write,
)

from things import CONFIG_MAP, Turns, thing

LABEL = "84d59720dafd2f17d3f33b7bcea9ab7e"
"""What the label of the children of the singleton of `p` says: a digest that is the host's."""


class Outcomes(Turns):
    def after_a_look(self, now, outcome):
        """What becomes of an outcome that was decided on the object at version 7, which has the
        finalizer x/f, when the object has become another meanwhile."""

        def at(uid, version, finalizers):
            value = thing(CONFIG_MAP, "a")
            said = {"uid": uid, "resourceVersion": version, "finalizers": finalizers}
            value["metadata"] |= said
            return value

        cluster = self.cluster(at("u1", "7", ["x/f"]))
        self.outcome = lambda request: outcome
        cluster.reconcile()
        cluster.add(at(*now))
        (effect,) = cluster.write()
        return effect.result

    def test_a_failure_skips_later_stages_but_those_that_begin_always(self):
        taken = thing(CONFIG_MAP, "a", data={"x": "others"})
        body = thing(CONFIG_MAP, "a", data={"x": "mine"})
        other, last = thing(CONFIG_MAP, "b"), thing(CONFIG_MAP, "c")
        outcome = Outcome().apply(body).create(other).stage().create(last).always().create(last)
        wanted = [
            ("apply", "conflict"),
            ("create", "done"),
            ("create", "skipped"),
            ("create", "done"),
        ]
        self.assertEqual(self.effects(self.cluster(taken), outcome), wanted)

    def test_children_that_are_no_longer_wanted_are_deleted(self):
        cluster = self.cluster(thing(CONFIG_MAP, "other"))
        self.effects(cluster, Outcome().children([thing(CONFIG_MAP, "a"), thing(CONFIG_MAP, "b")]))
        effects = self.effects(cluster, Outcome().children([thing(CONFIG_MAP, "b")]))
        self.assertEqual(effects, [("apply", "unchanged"), ("delete", "done")])
        left = [self.stored(cluster, name) is not None for name in ("a", "b", "other")]
        self.assertEqual(left, [False, True, True])

    def test_an_outcome_writes_one_object_several_times(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"x": "1"}))
        seen = self.stored(cluster)
        outcome = Outcome().patch(ref, {"metadata": {"resourceVersion": "any"}, "data": {"y": "2"}})
        outcome.update({**seen, "data": {"z": "3"}})
        outcome.patch(ref, {"metadata": {"resourceVersion": "any"}, "data": {"w": "4"}})
        outcome.apply(thing(CONFIG_MAP, "a", data={"v": "5"}))
        self.assertEqual({result for _, result in self.effects(cluster, outcome)}, {"done"})
        self.assertEqual(self.stored(cluster)["data"], {"z": "3", "w": "4", "v": "5"})

    def test_a_new_object_takes_what_later_actions_add(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        cluster = self.cluster()
        body = thing(CONFIG_MAP, "a", data={"x": "1"})
        body["metadata"]["finalizers"] = ["example.com/f"]
        outcome = Outcome().create(body).stage().finalizer(ref, "example.com/g")
        outcome.update(thing(CONFIG_MAP, "a", data={"y": "2"}))
        self.assertEqual({result for _, result in self.effects(cluster, outcome)}, {"done"})
        stored = self.stored(cluster)
        self.assertEqual(stored["data"], {"y": "2"})
        self.assertEqual(stored["metadata"]["finalizers"], ["example.com/f", "example.com/g"])

    def test_an_object_that_the_outcome_has_deleted_has_no_finalizers(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        outcome = Outcome().delete(ref).finalizer(ref, "x", present=False)
        wanted = [("delete", "done"), ("finalizer", "done")]
        self.assertEqual(self.effects(self.cluster(thing(CONFIG_MAP, "a")), outcome), wanted)

    def test_a_child_that_is_being_deleted_is_not_deleted_again(self):
        cluster = self.cluster()
        child = thing(CONFIG_MAP, "a")
        child["metadata"]["finalizers"] = ["example.com/f"]
        self.effects(cluster, Outcome().children([child]))
        self.assertEqual(self.effects(cluster, Outcome().children([])), [("delete", "done")])
        self.assertEqual(self.effects(cluster, Outcome().children([])), [])

    def test_a_json_patch_copies_only_what_is_read_whole(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        manifest = {
            "singleton": True,
            "reads": [Read(CONFIG_MAP, [".data[*].x", ".spec"])],
            "writes": [Write(CONFIG_MAP, ["patch"])],
        }
        for path, is_read in (
            ("/spec/deep/er", True),
            ("/data/k/x", True),
            ("/data/k", False),
            ("/data/k/y", False),
        ):
            with self.subTest(path):
                steps = [{"op": "copy", "from": path, "path": "/copied"}]
                outcome = Outcome().patch(ref, steps, patch_type="json-patch")
                cluster = self.cluster(**manifest)
                self.outcome = lambda request, outcome=outcome: outcome
                if is_read:
                    cluster.reconcile()
                else:
                    with self.assertRaisesRegex(Terminal, "may copy only what the plugin reads"):
                        cluster.reconcile()

    def test_a_delete_is_of_what_the_reconcile_saw(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        for now, options, wanted in (
            (("u1", "7"), {}, "done"),
            (("u1", "8"), {}, "conflict"),
            (("u1", "8"), {"uid": "u1"}, "done"),
            (("u1", "8"), {"resource_version": "8"}, "done"),
            (("u2", "7"), {}, "conflict"),
            (("u2", "8"), {"resource_version": "8"}, "conflict"),
            (("u2", "8"), {"uid": "u2"}, "done"),
        ):
            with self.subTest(now=now, options=options):
                outcome = Outcome().delete(ref, **options)
                self.assertEqual(self.after_a_look((*now, ["x/f"]), outcome), wanted)

    def test_a_finalizer_is_changed_where_there_are_those_that_the_reconcile_saw(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        for now, wanted in (
            (("u1", "8", ["x/f"]), "done"),
            (("u2", "8", ["x/f"]), "conflict"),
            (("u1", "8", ["x/f", "y/f"]), "conflict"),
            (("u1", "8", []), "conflict"),
        ):
            for outcome in (
                Outcome().finalizer(ref, "x/g"),
                Outcome().finalizer(ref, "x/f", present=False),
            ):
                with self.subTest(now=now, outcome=outcome):
                    self.assertEqual(self.after_a_look(now, outcome), wanted)

    def test_a_patch_that_names_a_version_or_uid_is_of_that_object(self):
        ref = ObjectRef(CONFIG_MAP, "default", "a")
        for now, metadata, wanted in (
            (("u1", "7"), {"resourceVersion": "any"}, "done"),
            (("u1", "8"), {"resourceVersion": "any"}, "conflict"),
            (("u1", "8"), {"uid": "u1"}, "done"),
            (("u2", "8"), {"uid": "u1"}, "conflict"),
        ):
            with self.subTest(now=now, metadata=metadata):
                labels = {"labels": {"x": "y"}}
                outcome = Outcome().patch(ref, {"metadata": {**metadata, **labels}})
                self.assertEqual(self.after_a_look((*now, ["x/f"]), outcome), wanted)

    def test_write_needs_a_reconcile(self):
        with self.assertRaisesRegex(AssertionError, "call that first"):
            self.cluster().write()

    def test_an_update_keeps_the_finalizers_that_the_outcome_has_left(self):
        stored = thing(CONFIG_MAP, "a", data={"x": "1"})
        stored["metadata"]["finalizers"] = ["x/f"]
        cluster = self.cluster(stored)
        outcome = Outcome().finalizer(ObjectRef(CONFIG_MAP, "default", "a"), "x/f", present=False)
        outcome.update({**stored, "data": {"y": "2"}})
        self.assertEqual(
            self.effects(cluster, outcome), [("finalizer", "done"), ("update", "done")]
        )
        self.assertEqual(self.stored(cluster)["metadata"].get("finalizers", []), [])
        outcome = Outcome().update(thing(CONFIG_MAP, "a", data={"z": "3"}))
        self.assertEqual(self.effects(cluster, outcome), [("update", "done")])

    def test_a_copy_of_a_childs_labels_is_no_child(self):
        cluster = self.cluster()
        self.effects(cluster, Outcome().children([thing(CONFIG_MAP, "a")]))
        cluster.add(thing(CONFIG_MAP, "copy", labels=self.stored(cluster)["metadata"]["labels"]))
        self.effects(cluster, Outcome().children([]))
        left = [self.stored(cluster, name) is not None for name in ("a", "copy")]
        self.assertEqual(left, [False, True])

    def test_a_refusal_quotes_only_what_is_read_whole(self):
        manifest = {
            "singleton": True,
            "reads": [Read(CONFIG_MAP, [".metadata.labels"])],
            "writes": [Write(CONFIG_MAP, ["apply"])],
        }
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"x": "theirs"}), **manifest)
        self.effects(cluster, Outcome().apply(thing(CONFIG_MAP, "a", data={"x": "ours"})))
        text = self.seen[-1].previous[0].text
        self.assertTrue(text.startswith("HTTP 409 Conflict;") and ".data" not in text, text)

    def test_a_strangers_object_of_a_childs_name_is_left_alone(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a", data={"x": "theirs"}))
        outcome = Outcome().children([thing(CONFIG_MAP, "a", data={"x": "ours"})])
        self.assertEqual(self.effects(cluster, outcome), [("apply", "conflict")])
        self.assertEqual(
            self.seen[-1].previous[0].text,
            "v1/ConfigMap default/a exists and is not a child of this key: delete it, give the "
            "child another name, or make it a child of this key with the label "
            f"pilothouse.dev/children-of={LABEL}",
        )
        self.assertEqual(self.effects(cluster, Outcome().children([])), [])
        self.assertEqual(self.stored(cluster)["data"], {"x": "theirs"})

    def test_a_stranger_that_the_watches_have_not_brought_is_left_alone(self):
        cluster = self.cluster()
        cluster.add_unseen(thing(CONFIG_MAP, "a", data={"x": "theirs"}))
        outcome = Outcome().children([thing(CONFIG_MAP, "a", data={"x": "ours"})])
        self.assertEqual(self.effects(cluster, outcome), [("apply", "conflict")])
        self.assertEqual(
            self.seen[-1].previous[0].text,
            "v1/ConfigMap default/a is not created: there is one that the snapshot does not show "
            "yet, or the child names a uid",
        )
        self.assertEqual(self.stored(cluster)["data"], {"x": "theirs"})

    def test_children_are_applied_with_force(self):
        labels = {"pilothouse.dev/children-of": LABEL}
        cluster = self.cluster(thing(CONFIG_MAP, "a", labels=labels, data={"x": "others"}))
        child = thing(CONFIG_MAP, "a", data={"x": "mine"})
        self.assertEqual(self.effects(cluster, Outcome().children([child])), [("apply", "done")])
        self.assertEqual(self.stored(cluster)["data"], {"x": "mine"})

    def test_children_that_cannot_all_be_applied_delete_nothing(self):
        cluster = self.cluster()
        self.effects(cluster, Outcome().children([thing(CONFIG_MAP, "a")]))
        stale = thing(CONFIG_MAP, "b")
        stale["metadata"]["uid"] = "of one that is gone"
        wanted = [("apply", "conflict"), ("delete", "skipped")]
        self.assertEqual(self.effects(cluster, Outcome().children([stale])), wanted)
        self.assertIsNotNone(self.stored(cluster))

    def test_events_are_kept_for_the_test(self):
        cluster = self.cluster(thing(CONFIG_MAP, "a"))
        self.effects(cluster, Outcome().event(ObjectRef(CONFIG_MAP, "default", "a"), "R", "A", "n"))
        self.assertEqual(
            [(event["reason"], event["note"]) for event in cluster.events], [("R", "n")]
        )

    def test_a_turn_that_fails_writes_nothing_and_counts(self):
        def fails(request):
            raise Retry("not yet")

        cluster = self.cluster()
        self.outcome = fails
        for attempt in (1, 2):
            with self.assertRaisesRegex(Retry, "not yet"):
                cluster.turn()
            self.assertEqual(self.seen[-1].attempt, attempt)
        self.outcome = lambda request: Outcome()
        effect = Effect(ObjectRef(CONFIG_MAP, "default", "a"), "create", "done", "7")
        cluster.reconcile(attempt=9, previous=[effect])
        self.assertEqual((self.seen[-1].attempt, self.seen[-1].previous), (9, [effect]))

    def test_a_write_that_is_not_declared_is_refused(self):
        cluster = self.cluster(singleton=True, writes=[Write(CONFIG_MAP, ["create"])])
        self.outcome = lambda request: Outcome().apply(thing(CONFIG_MAP, "a"))
        message = r"action 1 \(apply\): denied: apply of v1/ConfigMap is not among"
        with self.assertRaisesRegex(Terminal, message):
            cluster.turn()


if __name__ == "__main__":
    unittest.main()
