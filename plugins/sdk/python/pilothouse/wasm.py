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
from typing import TYPE_CHECKING, Any

from .changes import Action, Effect, to_json
from .host import Filter, Host, Request
from .objects import ObjectRef
from .outcome import Denied, Failure, Outcome, Terminal, milliseconds

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

    def _list(self, kind: str, namespace: str | None, which: Filter) -> str:
        wit: Any = snapshot.Filter_Everything()
        if which.labels is not None:
            wit = snapshot.Filter_Labels(which.labels)
        if which.index is not None:
            wit = snapshot.Filter_Index(snapshot.IndexValue(*which.index))
        try:
            found: str = snapshot.list(snapshot.Query(kind, namespace, wit))
        except Err as error:
            raise _denied(error) from None
        return found

    def _now(self) -> int:
        now: int = clock.now()
        return now

    def _log(self, level: str, message: str, fields: list[tuple[str, str]]) -> None:
        log.log(log.Level[level.upper()], message, fields)


def _denied(error: Any) -> Denied:
    return Denied(f"denied: {error.value.value}")


def _request(request: Any) -> Request:
    key = request.key
    return Request(
        key=ObjectRef(key.kind, key.namespace, key.name) if key else None,
        object=json.loads(request.object) if request.object is not None else None,
        attempt=request.attempt,
        previous=[_effect(effect) for effect in request.previous],
        config=json.loads(request.config),
    )


def _effect(effect: Any) -> Effect:
    ref, case = effect.object, type(effect.outcome).__name__.removeprefix("ActionResult_")
    result = "".join(f"-{char.lower()}" if char.isupper() else char for char in case)
    return Effect(
        ObjectRef(ref.kind, ref.namespace, ref.name),
        effect.verb.name.lower(),
        result.removeprefix("-"),
        getattr(effect.outcome, "value", None),
    )


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
    return plugin.Outcome(stages, after)


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
        return to_json(value)
    if "is_documents" in how:
        return [to_json(each) for each in value]
    if isinstance(value, ObjectRef):
        return types.ObjectRef(*value)
    if "enum" in how and value is not None:
        return getattr(changes, how["enum"])[value.upper().replace("-", "_")]
    return value
