"""What a reconcile returns, and the exceptions that it raises instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from .changes import (
    Action,
    Apply,
    Children,
    Create,
    Delete,
    Event,
    Finalizer,
    Patch,
    Update,
)


class Failure(Exception):
    """Why nothing could be decided. Nothing is written. The text is for the operator."""


class Retry(Failure):
    """Try again, later and later: the delay doubles from 5 ms up to 1,000 s."""


class Terminal(Failure):
    """Trying again is useless until something that this key has read changes."""


class Denied(Terminal):
    """The plugin may not read this: its manifest does not name it, or it is not granted."""


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
    add.__name__ = action.__name__.lower()
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

    apply = _adds(Apply)
    create = _adds(Create)
    update = _adds(Update)
    patch = _adds(Patch)
    delete = _adds(Delete)
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
        after = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
        if after < timedelta():
            raise ValueError(f"requeue_after({delay!r}): a delay is not negative")
        self.after, self.retry_text = after, None
        return self

    def retry(self, text: str) -> Outcome:
        """Retries this key with back-off when the actions are done, as after `Retry`."""
        self.after, self.retry_text = None, text
        return self

    @property
    def actions(self) -> Iterator[Action]:
        """The actions of all stages."""
        return (action for stage in self.stages for action in stage.actions)

    def to_json(self) -> dict[str, Any]:
        """The outcome as data, for comparisons."""
        stages = [
            {"actions": [action.to_json() for action in stage.actions], "always": stage.always}
            for stage in self.stages
        ]
        if self.retry_text is not None:
            return {"stages": stages, "next": {"retry": self.retry_text}}
        if self.after is not None:
            return {"stages": stages, "next": {"after": milliseconds(self.after)}}
        return {"stages": stages, "next": "on-change"}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcome) and self.to_json() == other.to_json()

    def __repr__(self) -> str:
        return f"Outcome({self.to_json()})"


def milliseconds(time: timedelta) -> int:
    """Whole milliseconds."""
    return time // timedelta(milliseconds=1)
