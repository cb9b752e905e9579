"""What a reconcile returns, and the exceptions that it raises instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from .changes import (
    Action,
    Apply,
    Children,
    Create,
    Delete,
    DeleteAll,
    Event,
    Finalizer,
    Patch,
    Update,
    kebab,
    to_json,
)
from .host import Query, Which
from .objects import ObjectRef

if TYPE_CHECKING:
    from typing import Unpack


class Failure(Exception):
    """Why nothing could be decided. Nothing is written. The text is for the operator."""


class Retry(Failure):
    """Try again, later and later: the delay doubles from 5 ms up to 1,000 s."""


class Terminal(Failure):
    """Trying again is useless until something that this key has read changes."""


class Denied(Terminal):
    """The plugin may not read this: its manifest does not name it, or it is not granted."""


class Unavailable(Terminal):
    """Objects of a kind that is read by a pattern cannot be read now. The key runs again when they
    can."""


@dataclass(frozen=True)
class Unchanged:
    """A question to confirm: is the object the same, and all that the plugin sees of it?"""

    object: ObjectRef


@dataclass
class Stage:
    """Actions that do not depend on each other."""

    actions: list[Action] = field(default_factory=list)
    always: bool = False
    """Begin it though something failed in a stage before."""


def _adds(action: type[Action]) -> Callable[..., Any]:
    """A method that adds an action to the current stage, with the action's own arguments."""

    @functools.wraps(action, updated=())
    def add(self: Outcome, *arguments: Any, **options: Any) -> Outcome:
        return self.add(action(*arguments, **options))

    self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    given = inspect.signature(action).parameters.values()
    add.__signature__ = inspect.Signature([self, *given])  # type: ignore[attr-defined]
    add.__name__ = kebab(action.__name__).replace("-", "_")
    add.__qualname__ = f"Outcome.{add.__name__}"
    return add


class Outcome:
    """What should be done. Each method returns the outcome itself, so that calls can be chained.

    An empty outcome writes nothing, and the key runs again when something that it has read
    changes. Actions on one object are done in order, others of a stage side by side. A document
    is taken as it is when the reconcile returns.
    """

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.after: timedelta | None = None
        """When the key runs again, whatever changes."""
        self.retry_text: str | None = None
        """Why the key is retried when the stages are done."""
        self.rest = timedelta()
        """The least time to the key's next run."""
        self.is_settled = False
        """Whether what it writes does not run the key again."""
        self.memo: str | None = None
        """What is to be remembered, as JSON."""
        self.questions: list[ObjectRef | Unchanged | Query] = []
        """What the API server must confirm before the first write."""

    apply = _adds(Apply)
    create = _adds(Create)
    update = _adds(Update)
    patch = _adds(Patch)
    delete = _adds(Delete)
    delete_all = _adds(DeleteAll)
    event = _adds(Event)
    finalizer = _adds(Finalizer)
    children = _adds(Children)

    def add(self, action: Action) -> Outcome:
        """Adds an action to the current stage."""
        if not self.stages:
            self.stage()
        self.stages[-1].actions.append(action)
        return self

    def stage(self) -> Outcome:
        """Begins the next stage, which is done when all actions so far have succeeded."""
        return self._begin(Stage())

    def always(self) -> Outcome:
        """Begins the next stage, which is done even if an earlier one has failed: for a status."""
        return self._begin(Stage(always=True))

    def _begin(self, stage: Stage) -> Outcome:
        if self.stages and not self.stages[-1].actions:
            self.stages.pop()
        self.stages.append(stage)
        return self

    def requeue_after(self, delay: timedelta | float) -> Outcome:
        """Runs this key again after a time (a number is seconds), even if nothing changes.

        The host counts whole milliseconds. Zero asks for nothing.
        """
        self.after, self.retry_text = _time("requeue_after", delay), None
        return self

    def retry(self, text: str) -> Outcome:
        """Retries this key with back-off when the actions are done, as after `Retry`."""
        self.after, self.retry_text = None, text
        return self

    def not_before(self, delay: timedelta | float) -> Outcome:
        """Runs this key no earlier than this time (a number is seconds) after the end of this run,
        whatever changes. What changes meanwhile is not lost: the key runs then.

        The host counts whole milliseconds, and waits an hour at most.
        """
        self.rest = _time("not_before", delay)
        return self

    def settled(self) -> Outcome:
        """Nothing is left to do once the writes are accepted: the changes that they themselves make
        do not run this key. Without this they do, and that run finds nothing to do. What others
        change runs it in any case.

        For an outcome that makes things as they are to be, not for a step on the way: the host
        takes the controller's word for it. What this run has read is all that wakes the key, so it
        reads what the next one would. It does not hold if a write fails, not for deletions, and not
        with an apply or a patch that names no `metadata.resourceVersion`: what that changes cannot
        be told from what others change. `FakeCluster` runs the key again after such an outcome, and
        raises an `AssertionError` if that would write, read more, or ask for another time.
        """
        self.is_settled = True
        return self

    def remember(self, value: Any) -> Outcome:
        """Gives the key's next reconcile this value as `request.memo`, as JSON of at most 64 KiB.

        The host may forget it at any time, so a controller must come to the same end without it.
        Raises `TypeError` or `ValueError` for what has no JSON form.
        """
        self.memo = to_json(value)
        return self

    def confirm(self, object: ObjectRef) -> Outcome:
        """Writes only if the API server itself, past every cache, has this object as the snapshot
        shows it: the same object (or still none), and being deleted only if the snapshot shows
        that. If not, nothing is done, and the key runs again on what the server has: that is no
        failure."""
        if not isinstance(object, ObjectRef):
            raise TypeError(f"confirm({object!r}): it is not an ObjectRef")
        self.questions.append(object)
        return self

    def confirm_unchanged(self, object: ObjectRef) -> Outcome:
        """As `confirm`, and all is as it was that the plugin sees of the object: for a decision
        that rests on what another object says."""
        if not isinstance(object, ObjectRef):
            raise TypeError(f"confirm_unchanged({object!r}): it is not an ObjectRef")
        self.questions.append(Unchanged(object))
        return self

    def confirm_list(
        self,
        kind: str,
        namespace: str | None = None,
        **which: Unpack[Which],
    ) -> Outcome:
        """As `confirm`, for a list: are these still the objects of a kind that match? The arguments
        are those of `host.list`."""
        self.questions.append(Query.of(kind, namespace, **which))
        return self

    @property
    def actions(self) -> list[Action]:
        """The actions of all stages."""
        return [action for stage in self.stages for action in stage.actions]

    def to_json(self) -> dict[str, Any]:
        """The outcome as data, for comparisons."""
        stages = [
            {"actions": [action.to_json() for action in stage.actions], "always": stage.always}
            for stage in self.stages
        ]
        said: dict[str, Any] = {"stages": stages, "next": self._next()}
        if self.questions:
            said["confirm"] = [_question(each) for each in self.questions]
        if self.rest:
            said["not-before"] = milliseconds(self.rest)
        if self.is_settled:
            said["settled"] = True
        if self.memo is not None:
            said["memo"] = self.memo
        return said

    def _next(self) -> Any:
        if self.retry_text is not None:
            return {"retry": self.retry_text}
        return "on-change" if self.after is None else {"after": milliseconds(self.after)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcome) and self.to_json() == other.to_json()

    def __repr__(self) -> str:
        return f"Outcome({self.to_json()})"


def milliseconds(time: timedelta) -> int:
    """Whole milliseconds."""
    return time // timedelta(milliseconds=1)


def _time(method: str, delay: timedelta | float) -> timedelta:
    time = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
    if time < timedelta():
        raise ValueError(f"{method}({delay!r}): a delay is not negative")
    return time


def _question(asked: ObjectRef | Unchanged | Query) -> dict[str, Any]:
    if isinstance(asked, ObjectRef):
        return {"object": asked._asdict()}
    if isinstance(asked, Unchanged):
        return {"unchanged": asked.object._asdict()}
    which = {"labels": asked.which.labels, "index": asked.which.index}
    filters = {name: value for name, value in which.items() if value is not None}
    return {"objects": {"kind": asked.kind, "namespace": asked.namespace, **filters}}
