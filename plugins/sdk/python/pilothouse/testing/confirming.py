"""What an outcome wants to have confirmed: that the server has it as the reconcile has seen it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..host import Query
from ..objects import ObjectRef
from ..outcome import Denied, Terminal, Unchanged
from ..shapes import is_pattern
from .parts import Object, metadata_of, ref_of
from .reader import Reader
from .server import Server
from .views import Question, Views

_MAX_OBJECTS = 5_000

Identity = tuple[str, bool, Object | None]
"""By what an object counts as the same: its uid, whether it is being deleted, and what the plugin
sees of it if that is to be confirmed."""


@dataclass
class Confirmation:
    """One question, and what the reconcile has seen."""

    question: Question
    shown: dict[ObjectRef, Identity]
    with_content: bool

    def differing(self, views: Views, server: Server) -> list[ObjectRef]:
        """The objects that the server does not have as the reconcile has seen them."""
        kind = None if is_pattern(self.question.kind) else self.question.kind
        has = (each for each in server.all(kind) if views.answers(self.question, each))
        found = _identities(has, views, self.with_content)
        refs = {**self.shown, **found}
        return [ref for ref in refs if self.shown.get(ref) != found.get(ref)]


def confirmations(
    asked: Sequence[ObjectRef | Unchanged | Query], reader: Reader, views: Views
) -> list[Confirmation]:
    """What is to be confirmed, which counts as read. Raises `Terminal` where the host refuses."""
    made, objects = [], 0
    for number, each in enumerate(asked, 1):
        try:
            question = reader.ask(each.object if isinstance(each, Unchanged) else each)
        except Denied as error:
            raise Terminal(f"confirmation {number}: {error}") from None
        with_content = isinstance(each, Unchanged)
        shown = _identities(views.matching(question), views, with_content)
        made.append(Confirmation(question, shown, with_content))
        objects += len(shown) if isinstance(each, Query) else 1
    if objects > _MAX_OBJECTS:
        raise Terminal(f"{objects} objects to confirm; an outcome has at most {_MAX_OBJECTS}")
    return made


def _identities(
    objects: Iterable[Object], views: Views, with_content: bool
) -> dict[ObjectRef, Identity]:
    return {
        ref_of(each): (
            metadata_of(each).get("uid") or "",
            "deletionTimestamp" in metadata_of(each),
            _content(views, each) if with_content else None,
        )
        for each in objects
    }


def _content(views: Views, value: Object) -> Object | None:
    """What the plugin sees of an object. Its resourceVersion is no content."""
    seen = views.view(value)
    if seen is None:
        return None
    metadata = {name: it for name, it in seen["metadata"].items() if name != "resourceVersion"}
    return {**seen, "metadata": metadata}
