"""One reconcile of a key: run twice, because it must be pure, and planned."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ..changes import Effect
from ..controller import Controller
from ..host import Request
from ..objects import EPOCH
from ..outcome import Failure, Outcome, milliseconds
from .confirming import Confirmation, confirmations
from .execution import Plan
from .keys import Keys
from .planner import Applied, Planner
from .reader import Reader
from .schedule import Key, Known
from .views import Question, Views


@dataclass(frozen=True)
class Told:
    """What a test says that a reconcile is told. None: what the key's last turn has left."""

    attempt: int | None = None
    previous: Iterable[Effect] | None = None
    memo: Any = None


@dataclass(frozen=True)
class Decided:
    """What a reconcile wants done."""

    key: Key
    is_gone: bool
    outcome: Outcome
    plan: Plan
    confirmed: list[Confirmation]
    questions: set[Question]
    """All that was read."""

    @property
    def is_settled(self) -> bool:
        """Whether the host believes that it is settled."""
        steps = [step for _, stage in self.plan for step in stage]
        are_told = all(step.write.is_of_one_state for step in steps if step.write)
        return self.outcome.is_settled and are_told


@dataclass
class Reconciler:
    """Runs a controller."""

    controller: Controller
    views: Views
    keys: Keys
    applied: Applied = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    forgets_memos: bool = False
    lines: list[str] = field(default_factory=list)

    def reconcile(self, key: Key, known: Known, now: datetime, told: Told = Told()) -> Decided:
        """Runs a key, and plans what it returns. Raises what the controller raises, and `Terminal`
        for what the host refuses."""
        request = self._request(key, known, told)
        first, reader = self._decide(key, request, now, self.lines)
        known.questions = reader.questions
        second, again = self._decide(key, request, now, [])
        _check_pure("returned", _shown(first), _shown(second))
        _check_pure("read", _reads(reader), _reads(again))
        if isinstance(first, Failure):
            raise first
        if reader.denied is not None:
            raise reader.denied
        # What planning reads of the objects that are written is recorded, too.
        manifest = self.controller.manifest
        planner = Planner(manifest, self.views, reader.questions, self.applied, key)
        plan = planner.plan(first)
        confirmed = confirmations(first.questions, reader, self.views)
        return Decided(key, self.keys.is_gone(key), first, plan, confirmed, reader.questions)

    def _request(self, key: Key, known: Known, told: Told) -> Request:
        memo = told.memo
        if memo is None and known.memo is not None:
            memo = json.loads(known.memo)
        return Request(
            key=key.ref,
            attempt=known.attempt if told.attempt is None else told.attempt,
            previous=list(known.previous if told.previous is None else told.previous),
            config=self.config,
            memo=None if self.forgets_memos else memo,
        )

    def _decide(
        self, key: Key, request: Request, now: datetime, lines: list[str]
    ) -> tuple[Outcome | Failure, Reader]:
        gone = key.ref if self.keys.is_gone(key) else None
        reader = Reader(self.views, milliseconds(now - EPOCH), lines, gone)
        value = reader.get(*key) if key.kind else None
        copied = replace(
            request,
            object=value,
            previous=list(request.previous),
            config=copy.deepcopy(request.config),
            memo=copy.deepcopy(request.memo),
        )
        try:
            return self.controller(copied, reader), reader
        except Failure as failure:
            return failure, reader


def _reads(reader: Reader) -> str:
    clock = ["the clock"] if reader.has_read_clock else []
    return "\n".join(sorted(map(str, reader.questions)) + clock)


def _shown(result: Outcome | Failure) -> str:
    try:
        return repr(result)
    except (TypeError, ValueError):
        return "an outcome that has no JSON form"  # which the planner explains


def _check_pure(what: str, first: str, second: str) -> None:
    if first != second:
        raise AssertionError(
            "the controller is not pure: run twice on the same request and snapshot, it "
            f"{what}\n{first}\nand then\n{second}"
        )
