"""Which keys are due, and what each is told: the attempt, and what became of its last outcome."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from ..changes import Effect
from ..objects import EPOCH, ObjectRef
from .views import Question


class Key(NamedTuple):
    """The key of an object. All of it is empty for a singleton."""

    kind: str
    namespace: str
    name: str

    @property
    def ref(self) -> ObjectRef | None:
        """The object. None for a singleton."""
        return ObjectRef(*self) if self.kind else None


_LEAST, _MOST = timedelta(milliseconds=5), timedelta(seconds=1_000)


@dataclass
class Known:
    """What is known of a key."""

    attempt: int = 1
    previous: list[Effect] = field(default_factory=list)
    questions: set[Question] = field(default_factory=set)
    due: datetime | None = None
    """When it runs though nothing changes."""
    not_before: datetime = EPOCH
    """It runs no earlier, whatever changes."""
    memo: str | None = None
    """What its last outcome asked to be remembered, as JSON."""


def back_off(failures: int) -> timedelta:
    """How long a key waits after so many failures in a row."""
    doubled: int = 2 ** min(failures - 1, 30)
    return min(_LEAST * doubled, _MOST)


class Schedule:
    """The keys that are to be run. Those that were woken come before the first runs of others."""

    def __init__(self) -> None:
        self._woken: deque[Key] = deque()
        self._first: deque[Key] = deque()
        self.known: dict[Key, Known] = {}

    def add_first(self, keys: Iterable[Key]) -> None:
        """Keys that are to run for the first time."""
        self._first.extend(sorted(set(keys) - set(self._woken)))

    def wake(self, key: Key) -> None:
        """Something has changed for a key. It runs once, however often it is woken."""
        if key not in self._woken and key not in self._first:
            self._woken.append(key)

    def keep(self, is_kept: Callable[[Key], bool]) -> None:
        """Of the keys that are to be run, keeps these alone."""
        self._woken = deque(filter(is_kept, self._woken))
        self._first = deque(filter(is_kept, self._first))
        for key, known in self.known.items():
            known.due = known.due if is_kept(key) else None

    def next(self, now: datetime) -> Key | None:
        """The next key that is due, which counts as begun."""
        for key in sorted(
            key for key, known in self.known.items() if known.due and known.due <= now
        ):
            self.known[key].due = None
            self.wake(key)
        for keys in (self._woken, self._first):
            for key in keys:
                if self.of(key).not_before <= now:
                    keys.remove(key)
                    return key
        return None

    def of(self, key: Key) -> Known:
        """What is known of a key."""
        return self.known.setdefault(key, Known())
