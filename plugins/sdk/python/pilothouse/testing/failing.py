"""Why the server refuses a write: on its own account, or because a test wants it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from ..manifest import VERBS

if TYPE_CHECKING:
    from .server import Write


class Refused(Exception):
    """The server refuses a write, or does not answer it."""

    def __init__(
        self,
        result: str,
        status: str,
        text: str,
        *,
        retry_after: timedelta | None = None,
        is_unavailable: bool = False,
    ) -> None:
        super().__init__(text)
        self.result = result
        self.status = status
        self.retry_after = retry_after
        """How long the server wants to be left alone."""
        self.is_unavailable = is_unavailable
        """There was no answer."""

    @property
    def says_when(self) -> bool:
        """Whether it determines when to retry, so that nothing more is begun."""
        return self.is_unavailable or self.retry_after is not None


def conflict(text: str) -> Refused:
    """409: a precondition does not hold, or somebody else owns a field."""
    return Refused("conflict", "HTTP 409 Conflict", text)


def not_found(what: object) -> Refused:
    """404."""
    return Refused("not-found", "HTTP 404 NotFound", f"{what} not found")


def invalid(text: str) -> Refused:
    """422: the server refuses the object."""
    return Refused("invalid", "HTTP 422 Invalid", text)


_SAID = "the test lets it fail"

_REFUSALS = {
    "invalid": ("invalid", "HTTP 400 BadRequest", _SAID),
    "forbidden": ("forbidden", "HTTP 403 Forbidden", _SAID),
    "not-found": ("not-found", "HTTP 404 NotFound", _SAID),
    "conflict": ("conflict", "HTTP 409 Conflict", _SAID),
    "already-exists": ("already-exists", "HTTP 409 AlreadyExists", _SAID),
    "too-many-requests": ("failed", "HTTP 429 TooManyRequests", f"HTTP 429: {_SAID}"),
    "server-error": ("failed", "HTTP 500 InternalError", f"HTTP 500: {_SAID}"),
}
_SILENCES = ("no-answer", "answer-lost")

ERRORS = (*_REFUSALS, *_SILENCES)
"""How a write can fail."""

_BUSY = timedelta(seconds=1)
"""How long a server that answers 429 wants to be left alone."""

_VERB_OF = {"delete-all": "deletecollection"}


@dataclass
class Failing:
    """Which writes are to fail, and how."""

    verb: str
    kind: str
    error: str
    subresource: str | None
    name: str | None
    after: int
    """How many such writes are done before."""
    times: int | None
    """How many then fail. None: all."""

    def __post_init__(self) -> None:
        for value, known, what in (
            (self.verb, VERBS, "verb"),
            (self.error, ERRORS, "error"),
        ):
            if value not in known:
                raise ValueError(f"{value!r} is no {what}: {', '.join(known)}")
        is_delete = self.verb in ("delete", "deletecollection")
        if (self.error == "already-exists" and self.verb != "create") or (
            self.error == "not-found" and is_delete
        ):
            raise ValueError(f"a {self.verb} never fails with {self.error}")

    @property
    def is_done(self) -> bool:
        """Whether the write is done, though it fails."""
        return self.error == "answer-lost"

    def refusal(self) -> Refused:
        """What the host takes from it."""
        if self.error in _SILENCES:
            text = "no answer within 30 s"
            return Refused("failed", text, text, is_unavailable=True)
        result, status, text = _REFUSALS[self.error]
        busy = _BUSY if self.error == "too-many-requests" else None
        return Refused(result, status, text, retry_after=busy)

    def concerns(self, write: Write) -> bool:
        """Whether a write is one of those that are meant."""
        return (
            _VERB_OF.get(write.verb, write.verb) == self.verb
            and write.ref.kind == self.kind
            and write.subresource == self.subresource
            and self.name in (None, write.ref.name)
        )

    def fails(self) -> bool:
        """Counts a write. True: it is to fail."""
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is None:
            return True
        self.times -= 1
        return self.times >= 0


class FailingWrites:
    """The writes that are to fail."""

    def __init__(self) -> None:
        self._all: list[Failing] = []

    def add(self, failing: Failing) -> None:
        """Adds writes that are to fail."""
        self._all.append(failing)

    def clear(self) -> None:
        """From now on, none fails."""
        self._all.clear()

    def of(self, write: Write) -> Failing | None:
        """How a write that is about to be sent fails, if it does. Every rule counts it up to the
        first that fails it."""
        return next((each for each in self._all if each.concerns(write) and each.fails()), None)
