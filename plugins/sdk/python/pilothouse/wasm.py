"""The plugin's side of the contract: its exports and imports, through componentize-py's bindings.

The bindings (`wit_world`) exist only inside of a component, or where somebody has generated them
for an editor. Without them everything else of the SDK works.

Everything is imported here and now: inside of a component, files can only be imported while it is
built.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from .changes import Action, Answer, Effect, kebab, to_json
from .host import Host, Query, Request, ServedKind
from .objects import EPOCH, ObjectRef
from .outcome import Denied, Failure, Outcome, Terminal, Unavailable, Unchanged, milliseconds

if TYPE_CHECKING:
    from .controller import Controller

try:
    from componentize_py_types import Err
    from wit_world.exports import plugin
    from wit_world.imports import changes, clock, log, snapshot, types
except ImportError:
    if sys.platform == "wasi":
        raise


def plugin_of(controller: Controller, function: str) -> type:
    """The class that exports the controller of this function: componentize-py makes an instance."""

    class Plugin:
        made_of = function

        def describe(self) -> str:
            return controller.describe()

        def reconcile(self, request: Any) -> Any:
            try:
                return _outcome(controller.run(_request(request), _Imports()))
            except Failure as failure:
                is_terminal = isinstance(failure, Terminal)
                cls = plugin.Failure_Terminal if is_terminal else plugin.Failure_Retry
                raise Err(cls(str(failure))) from None

    return Plugin


class _Imports(Host):
    """The plugin's imports."""

    def _get(self, ref: ObjectRef) -> str | None:
        try:
            found: str | None = snapshot.get(types.ObjectRef(*ref))
        except Err as error:
            raise _denied(error) from None
        return found

    def _list(self, query: Query) -> str:
        try:
            found: str = snapshot.list(_query(query))
        except Err as error:
            raise _denied(error) from None
        return found

    def _list_page(self, query: Query, after: ObjectRef | None, limit: int) -> str:
        last = None if after is None else types.ObjectRef(*after)
        try:
            found: str = snapshot.list_page(_query(query), last, limit)
        except Err as error:
            raise _denied(error) from None
        return found

    def _kinds(self, pattern: str) -> list[ServedKind]:
        try:
            found = snapshot.kinds(pattern)
        except Err as error:
            raise _denied(error) from None
        return [
            ServedKind(
                each.kind,
                list(each.versions),
                each.resource,
                each.namespaced,
                list(each.verbs),
                list(each.subresources),
                each.unavailable,
            )
            for each in found
        ]

    def _now(self) -> int:
        now: int = clock.now()
        return now

    def _log(self, level: str, message: str, fields: list[tuple[str, str]]) -> None:
        log.log(log.Level[level.upper()], message, fields)


def _query(query: Query) -> Any:
    which: Any = snapshot.Filter_Everything()
    if query.which.labels is not None:
        which = snapshot.Filter_Labels(query.which.labels)
    if query.which.index is not None:
        which = snapshot.Filter_Index(snapshot.IndexValue(*query.which.index))
    return snapshot.Query(query.kind, query.namespace, which)


def _question(asked: ObjectRef | Unchanged | Query) -> Any:
    if isinstance(asked, ObjectRef):
        return snapshot.Question_Object(types.ObjectRef(*asked))
    if isinstance(asked, Unchanged):
        return snapshot.Question_Unchanged(types.ObjectRef(*asked.object))
    return snapshot.Question_Objects(_query(asked))


def _denied(error: Any) -> Terminal:
    reason = error.value
    if isinstance(reason, snapshot.ReadError_Unavailable):
        return Unavailable(f"unavailable: {reason.value}")
    return Denied(f"denied: {reason.value}")


def _request(request: Any) -> Request:
    key = request.key
    return Request(
        key=ObjectRef(key.kind, key.namespace, key.name) if key else None,
        object=json.loads(request.object) if request.object is not None else None,
        attempt=request.attempt,
        previous=[_effect(effect) for effect in request.previous],
        config=json.loads(request.config),
        memo=_memo(request.memo),
    )


def _memo(text: str | None) -> Any:
    """What was remembered. What cannot be decoded counts as forgotten."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None


def _effect(effect: Any) -> Effect:
    ref = ObjectRef(effect.object.kind, effect.object.namespace, effect.object.name)
    verb = effect.verb.name.lower().replace("_", "-")
    result = kebab(type(effect.outcome).__name__.removeprefix("ActionResult_"))
    value: Any = getattr(effect.outcome, "value", None)
    if result == "answered":
        at = EPOCH + timedelta(milliseconds=value.at)
        return Effect(ref, verb, result, answer=Answer(value.status, value.body, at))
    return Effect(ref, verb, result, value)


def _outcome(outcome: Outcome) -> Any:
    numbers = iter(range(1, sys.maxsize))
    stages = [
        changes.Stage([_action(next(numbers), action) for action in stage.actions], stage.always)
        for stage in outcome.stages
    ]
    after: Any = plugin.Next_OnChange()
    if outcome.after is not None:
        after = plugin.Next_After(milliseconds(outcome.after))
    if outcome.retry_text is not None:
        after = plugin.Next_Retry(outcome.retry_text)
    questions = [_question(asked) for asked in outcome.questions]
    rest = milliseconds(outcome.rest)
    return plugin.Outcome(stages, questions, after, rest, outcome.is_settled, outcome.memo)


def _action(number: int, action: Action) -> Any:
    name = type(action).__name__
    try:
        members = [_member(action, field) for field in dataclasses.fields(action)]
    except (TypeError, ValueError) as error:
        raise Terminal(f"action {number} ({action.verb}): {error}") from None
    record = getattr(changes, name)(*members)
    return getattr(changes, f"Action_{name}")(record)


def _member(action: Action, field: dataclasses.Field[Any]) -> Any:
    value, how = getattr(action, field.name), field.metadata
    if "is_document" in how:
        return None if value is None and field.default is None else to_json(value)
    if "is_documents" in how:
        return [to_json(each) for each in value]
    if isinstance(value, ObjectRef):
        return types.ObjectRef(*value)
    if "enum" in how and value is not None:
        return getattr(changes, how["enum"])[value.upper().replace("-", "_")]
    return value
