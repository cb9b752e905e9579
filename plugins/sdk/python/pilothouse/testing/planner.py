"""Turns an outcome into writes: is each action permitted, is it valid, and does it change anything?

The rules and the messages are the host's; `wit/cases/actions.json` lists what it refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..changes import Action, Effect
from ..check import check_key, check_namespace
from ..manifest import Manifest
from ..objects import ObjectRef
from ..outcome import Outcome, Terminal
from ..selectors import LabelSelector, Requirement, SelectorError, compact, parse_labels
from ..shapes import includes, is_pattern
from . import children
from .bodies import address_of, as_sent, check_address, is_same_object, text_of
from .identity import (
    ActionRefused,
    Before,
    check_json_patch,
    metadata_refused,
    names_a_version,
    settle,
)
from .parts import Object, metadata_of, ref_of
from .schedule import Key
from .server import Write, address
from .views import Question, RunEnded, Views, side

_MAX_ACTIONS, _MAX_STAGES, _MAX_EVENTS = 10_000, 1_000, 100
_MAX_MEMO = 64 << 10
_MAX_QUESTIONS = 100


@dataclass
class Step:
    """One write, or its result if none is needed."""

    action: int
    """The number of the action, from 1, through all stages."""
    ref: ObjectRef
    verb: str
    write: Write | None = None
    known: Effect | None = None
    member: str | None = None
    """Of a `children` action: `wanted` or `unwanted`."""


@dataclass
class Left:
    """An object as an apply has left it."""

    intent: Any
    version: str | None
    side: Any


Applied = dict[tuple[ObjectRef, str | None], Left]
"""What the plugin last applied, to know what would change nothing."""


def refused(text: str) -> Terminal:
    """The failure of an outcome that the host refuses."""
    return Terminal(text)


class Planner:
    """Plans one outcome of one key."""

    def __init__(
        self,
        manifest: Manifest,
        views: Views,
        questions: set[Question],
        applied: Applied,
        key: Key,
    ) -> None:
        self._manifest = manifest
        self._views = views
        self._questions = questions
        self._applied = applied
        self._key = key
        self._number = 0
        self._written: set[Any] = set()
        self._born: set[Any] = set()
        self._finalizers: dict[Any, list[str]] = {}
        self._created: dict[str, int] = {}
        self._has_children = False

    def plan(self, outcome: Outcome) -> list[tuple[bool, list[Step]]]:
        """The stages, each with whether it begins `always`. Raises `Terminal` for what the host
        refuses."""
        actions = outcome.actions
        events = sum(action.verb == "event" for action in actions)
        if any(action.verb == "call" for action in actions):
            raise RunEnded("this host offers no calls")
        questions, memo = len(outcome.questions), len((outcome.memo or "").encode())
        if questions > _MAX_QUESTIONS:
            raise refused(
                f"{questions} questions to confirm; an outcome has at most {_MAX_QUESTIONS}"
            )
        if memo > _MAX_MEMO:
            raise refused(f"a memo of {memo} bytes; it has at most {_MAX_MEMO}")
        for count, most, what in (
            (len(outcome.stages), _MAX_STAGES, "stages"),
            (len(actions), _MAX_ACTIONS, "actions"),
            (events, _MAX_EVENTS, "Events"),
        ):
            if count > most:
                raise refused(f"{count} {what}; an outcome has at most {most}")
        return [
            (stage.always, [step for action in stage.actions for step in self._steps(action)])
            for stage in outcome.stages
        ]

    def _steps(self, action: Action) -> list[Step]:
        self._number += 1
        method: Callable[[Any], list[Step]] = getattr(self, "_" + action.verb.replace("-", "_"))
        try:
            steps = method(as_sent(action))
        except (ActionRefused, TypeError, ValueError) as error:
            raise refused(f"action {self._number} ({action.verb}): {error}") from None
        sent = [step for step in steps if step.write and step.verb != "event"]
        self._written.update(address(step.ref) for step in sent)
        return steps

    def _send(self, verb: str, write: Write, member: str | None = None) -> Step:
        return Step(self._number, write.ref, verb, write=write, member=member)

    def _known(self, verb: str, ref: ObjectRef, result: str, text: str | None = None) -> Step:
        return Step(self._number, ref, verb, known=Effect(ref, verb, result, text))

    def _absent(self, verb: str, ref: ObjectRef) -> Step | None:
        """The step of a write to an optional kind that is not served, which fails as one to an
        object that is not there. None: it is served."""
        if ref.kind not in self._views.absent:
            return None
        text = f"{ref.kind} is optional, and the cluster does not serve it"
        return self._known(verb, ref, "not-found", text)

    def _check(self, verb: str, ref: ObjectRef, subresource: str | None) -> None:
        problem = check_key(ref.namespace, ref.name)
        if problem:
            raise ActionRefused(f"denied: {problem}")
        self._check_declared(verb, ref.kind, subresource)

    def _check_declared(self, verb: str, kind: str, subresource: str | None) -> None:
        declared = [
            each
            for each in self._manifest.writes
            if each.subresource == subresource
            and (each.kind == kind or includes(each.kind, kind))
            and not is_pattern(kind)
        ]
        if not any(verb in each.verbs for each in declared):
            suffix = f"/{subresource}" if subresource else ""
            raise ActionRefused(
                f"denied: {verb} of {kind}{suffix} is not among the manifest's writes"
            )

    def _shown(self, ref: ObjectRef) -> Object | None:
        kind = self._views.readable_as(ref.kind)
        return self._views.find(ref.of_kind(kind)) if kind else None

    def _look_at(self, ref: ObjectRef, what: str = "get") -> Object | None:
        if not self._views.may_read(ref.kind):
            return None
        self._questions.add(Question(ref.kind, what, ref.namespace, ref.name))
        return self._views.find(ref)

    def _settle(self, body: Any, use: str, ref: ObjectRef) -> Any:
        target, shown = address(ref), self._shown(ref)
        is_missing = shown is None and self._views.knows(ref)
        is_written = target in self._written
        before = Before(shown, is_missing, is_written, self._finalizers.get(target))
        settled = settle(body, use, ref, before, self._views)
        if use == "create" or (use == "apply" and is_missing and not is_written):
            self._finalizers[target] = list(metadata_of(settled).get("finalizers") or ())
            self._born.add(target)
        return settled

    def _apply(self, action: Any) -> list[Step]:
        ref = address_of(action.object)
        self._check("apply", ref, action.subresource)
        if step := self._absent("apply", ref):
            return [step]
        body = self._settle(action.object, "apply", ref)
        return [self._apply_unless_unchanged(body, ref, action.subresource, action.force, {})]

    def _apply_unless_unchanged(
        self,
        body: Object,
        ref: ObjectRef,
        subresource: str | None,
        force: bool,
        condition: dict[str, str],
    ) -> Step:
        """`condition`: what the metadata of the body says besides, so that the server checks it."""
        which = "status" if subresource == "status" else "main"
        current = self._look_at(ref, which)
        left = self._applied.get((ref, subresource))
        if current and left and address(ref) not in self._written and left.intent == body:
            is_untouched = metadata_of(current).get("resourceVersion") == left.version
            if is_untouched or side(current, which) == left.side:
                return self._known("apply", ref, "unchanged")
        sent = {**body, "metadata": {**metadata_of(body), **condition}} if condition else body
        write = Write("apply", ref, subresource, body=sent, force=force, intent=body)
        write.is_creation = "resourceVersion" in condition
        return self._send("apply", write)

    def _create(self, action: Any) -> list[Step]:
        ref, body = address_of(action.object), action.object
        prefix = text_of(metadata_of(body), "generateName", "metadata/")[: 63 - 8]
        is_named = bool(ref.name or not prefix)
        self._check("create", ref if is_named else ref.named(prefix), action.subresource)
        if step := self._absent("create", ref if is_named else ref.named(prefix)):
            return [step]
        if not is_named:
            ref = self._derive_name(body, ref.named(prefix))
            self._check("create", ref, action.subresource)
            metadata = {**body["metadata"], "name": ref.name}
            del metadata["generateName"]
            body = {**body, "metadata": metadata}
        if action.subresource is None:
            body = self._settle(body, "create", ref)
        return [self._send("create", Write("create", ref, action.subresource, body=body))]

    def _derive_name(self, body: Object, prefix: ObjectRef) -> ObjectRef:
        """A name that none of the objects has which the reconcile has read."""
        text = compact(body)
        number, digest = (
            self._created.get(text, 0),
            children.digest(self._manifest.name, self._key, text),
        )
        while True:
            tail = children.digest(self._manifest.name, self._key, str(number), digest)[:8]
            ref = prefix.named(prefix.name + tail)
            number += 1
            found = self._shown(ref)
            has_seen = found and any(self._views.answers(each, found) for each in self._questions)
            if not has_seen:
                self._created[text] = number
                return ref

    def _update(self, action: Any) -> list[Step]:
        ref, subresource = address_of(action.object), action.subresource
        self._check("update", ref, subresource)
        if step := self._absent("update", ref):
            return [step]
        is_written = address(ref) in self._written
        if self._shown(ref) is None and not is_written:
            if self._views.knows(ref):
                self._look_at(ref)
                return [self._known("update", ref, "not-found", f"{ref} is not in the cache")]
            if subresource is None and not names_a_version(action.object):
                raise metadata_refused(
                    "an update of an object that is not read says of which resourceVersion it is"
                )
        body = self._settle(action.object, "update", ref)
        current = self._look_at(ref)
        if current and not is_written and is_same_object(current, body, subresource):
            return [self._known("update", ref, "unchanged")]
        return [self._send("update", Write("update", ref, subresource, body=body))]

    def _patch(self, action: Any) -> list[Step]:
        ref, body = action.object, action.body
        self._check("patch", ref, action.subresource)
        if step := self._absent("patch", ref):
            return [step]
        check_address(body, ref)
        if action.patch_type == "json-patch":
            check_json_patch(body, lambda names: self._views.shows(ref, names))
        else:
            body = self._settle(body, "patch", ref)
        write = Write("patch", ref, action.subresource, body=body, patch_type=action.patch_type)
        return [self._send("patch", write)]

    def _delete(self, action: Any) -> list[Step]:
        ref = action.object
        self._check("delete", ref, None)
        if step := self._absent("delete", ref):
            return [step]
        seen = self._look_at(ref)
        metadata = metadata_of(seen) if seen and address(ref) not in self._born else {}
        is_as_seen = not action.uid and address(ref) not in self._written
        version = action.resource_version or (
            metadata.get("resourceVersion") if is_as_seen else None
        )
        uid = action.uid or metadata.get("uid")
        return [self._send("delete", Write("delete", ref, uid=uid, resource_version=version))]

    def _delete_all(self, action: Any) -> list[Step]:
        ref = ObjectRef(action.kind, action.namespace, "")
        problem = check_namespace(ref.namespace)
        if problem:
            raise ActionRefused(f"denied: {problem}")
        self._check_declared("deletecollection", ref.kind, None)
        if step := self._absent("delete-all", ref):
            return [step]
        try:
            labels = parse_labels(action.labels or "")
        except SelectorError as error:
            raise ActionRefused(f"labels: {error}") from None
        return [self._send("delete-all", Write("delete-all", ref, labels=labels))]

    def _event(self, action: Any) -> list[Step]:
        ref = action.object
        if step := self._absent("event", ref):
            return [step]
        manifest = self._manifest
        kinds = {read.kind for read in manifest.reads} | {each.kind for each in manifest.writes}
        if not any(kind == ref.kind or includes(kind, ref.kind) for kind in kinds):
            raise ActionRefused(f"denied: {ref.kind} is not among the manifest's kinds")
        problem = check_key(ref.namespace, ref.name)
        if problem:
            raise ActionRefused(f"denied: {problem}")
        self._look_at(ref)
        note = action.to_json()["event"]
        return [self._send("event", Write("event", ref, note=note))]

    def _finalizer(self, action: Any) -> list[Step]:
        ref, target = action.object, address(action.object)
        self._check("patch", ref, None)
        if step := self._absent("finalizer", ref):
            return [step]
        if not self._views.may_read(ref.kind):
            raise ActionRefused(
                f"denied: {ref.kind} is not among the manifest's reads, which a finalizer action "
                "needs"
            )
        seen = self._look_at(ref)
        if target in self._born:
            seen = None
        have = self._finalizers.get(target)
        if have is None and seen is not None:
            have = metadata_of(seen).get("finalizers") or []
        if have is None:
            if not action.present and self._views.knows(ref):
                return [self._known("finalizer", ref, "unchanged")]
            return [self._known("finalizer", ref, "not-found", f"{ref} is not in the cache")]
        if (action.name in have) == action.present and target not in self._written:
            return [self._known("finalizer", ref, "unchanged")]
        wanted = [name for name in have if name != action.name]
        wanted += [action.name] if action.present else []
        self._finalizers[target] = wanted
        uid = metadata_of(seen or {}).get("uid")
        body = [{"op": "test", "path": "/metadata/uid", "value": uid}] if uid else []
        body.append({"op": "test", "path": "/metadata/finalizers", "value": have or None})
        body.append({"op": "add", "path": "/metadata/finalizers", "value": wanted})
        write = Write("patch", ref, body=body, patch_type="json-patch")
        write.is_finalizer_removal = not action.present
        return [self._send("finalizer", write)]

    def _children(self, action: Any) -> list[Step]:
        if self._has_children:
            raise ActionRefused("an outcome has one children action; list all of them in it")
        self._has_children = True
        steps, wanted = [], set()
        kinds = {each.kind for each in self._manifest.writes if each.children}
        for child in action.objects:
            ref = address_of(child)
            if ref.kind not in kinds:
                raise ActionRefused(
                    f"denied: {ref.kind} is not marked children in the manifest's writes, or not "
                    "granted with the verbs apply and delete"
                )
            self._check("apply", ref, None)
            wanted.add(address(ref))
            step = self._absent("apply", ref) or self._child(child, ref)
            step.member = "wanted"
            steps.append(step)
        return steps + self._unwanted(kinds, wanted)

    def _child(self, child: Object, ref: ObjectRef) -> Step:
        label = children.label(self._manifest.name, self._key)
        shown, condition = self._shown(ref), {}
        labels = metadata_of(shown or {}).get("labels") or {}
        if shown and labels.get(children.LABEL) != label:
            self._look_at(ref, "main")
            return self._known(
                "apply",
                ref,
                "conflict",
                f"{ref} exists and is not a child of this key: delete it, give the child another "
                f"name, or make it a child of this key with the label {children.LABEL}={label}",
            )
        if address(ref) not in self._written:
            uid = metadata_of(shown or {}).get("uid")
            if uid:
                condition = {"uid": uid}
            elif shown is None and self._views.knows(ref):
                # An apply with a resourceVersion creates an object, or changes one of that version.
                condition = {"resourceVersion": "1"}
        settled = self._settle(child, "apply", ref)
        body = children.mark(settled, self._manifest.name, self._key)
        return self._apply_unless_unchanged(body, ref, None, True, condition)

    def _unwanted(self, kinds: set[str], wanted: set[Any]) -> list[Step]:
        label = children.label(self._manifest.name, self._key)
        selector = LabelSelector((Requirement(children.LABEL, "=", (label,)),))
        steps = []
        for kind in sorted(kinds):
            question = Question(kind, "list", selector=selector)
            self._questions.add(question)
            for member in self._views.matching(question):
                ref, metadata = ref_of(member), metadata_of(member)
                is_own = children.owner_of(self._manifest, member) == self._key
                is_ending = bool(metadata.get("deletionTimestamp"))
                if is_ending or not is_own or address(ref) in wanted:
                    continue
                write = Write("delete", ref, uid=metadata.get("uid"))
                write.resource_version = metadata.get("resourceVersion")
                steps.append(self._send("delete", write, "unwanted"))
        return steps
