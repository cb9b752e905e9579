"""What an outcome wants to have confirmed: that the server has it as the reconcile has seen it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..host import Query
from ..objects import ObjectRef
from ..outcome import Denied, Terminal
from .parts import Object, metadata_of, ref_of
from .reader import Reader
from .server import Server
from .views import Question, Views

_MAX_OBJECTS = 5_000

Identity = tuple[str, bool]
"""By what an object counts as the same: its uid, and whether it is being deleted."""


@dataclass
class Confirmation:
    """One question, and what the reconcile has seen."""

    question: Question
    shown: dict[ObjectRef, Identity]

    def differing(self, views: Views, server: Server) -> list[ObjectRef]:
        """The objects that the server does not have as the reconcile has seen them."""
        found = _identities(
            each for each in server.all(self.question.kind) if views.answers(self.question, each)
        )
        refs = {**self.shown, **found}
        return [ref for ref in refs if self.shown.get(ref) != found.get(ref)]


def confirmations(
    asked: Sequence[ObjectRef | Query], reader: Reader, views: Views
) -> list[Confirmation]:
    """What is to be confirmed, which counts as read. Raises `Terminal` where the host refuses."""
    made, objects = [], 0
    for number, each in enumerate(asked, 1):
        try:
            question = reader.ask(each)
        except Denied as error:
            raise Terminal(f"confirmation {number}: {error}") from None
        shown = _identities(views.matching(question))
        made.append(Confirmation(question, shown))
        objects += len(shown) if isinstance(each, Query) else 1
    if objects > _MAX_OBJECTS:
        raise Terminal(f"{objects} objects to confirm; an outcome has at most {_MAX_OBJECTS}")
    return made


def _identities(objects: Iterable[Object]) -> dict[ObjectRef, Identity]:
    return {
        ref_of(each): (metadata_of(each).get("uid") or "", "deletionTimestamp" in metadata_of(each))
        for each in objects
    }
