"""The reads of one reconcile: only of what the plugin may read, and each recorded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ..changes import to_json
from ..host import Fields, Host, Query, ServedKind
from ..objects import ObjectRef
from ..outcome import Denied
from ..selectors import SelectorError, parse_labels
from ..shapes import is_kind, is_pattern, not_a_kind
from .parts import Object, ref_of
from .views import Question, RunEnded, Views, order_of

_MAX_READS = 10_000
_MAX_CONDITIONS = 100
_MAX_VALUES = 1_000


class Reader(Host):
    """The host of one reconcile, on the cluster as it is."""

    def __init__(self, views: Views, now: int, lines: list[str], gone: ObjectRef | None) -> None:
        self._views = views
        self._now_ms = now
        self._lines = lines
        self._gone = gone
        """The key's own object, if the manifest does not select it."""
        self.questions: set[Question] = set()
        self.has_read_clock = False
        self.denied: Denied | None = None

    def _get(self, ref: ObjectRef) -> str | None:
        if ref == self._gone:
            self._check(ref.kind, ref.namespace)
            return None
        self.ask(ref)
        found = self._views.view(self._views.find(ref))
        return None if found is None else to_json(found)

    def _list(self, query: Query) -> str:
        return to_json([self._views.view(each) for each in self._listed(query)])

    def _list_page(self, query: Query, after: ObjectRef | None, limit: int) -> str:
        found = self._listed(query)
        if after is not None:
            found = _after(found, query.kind, after)
        return to_json([self._views.view(each) for each in islice(found, limit)])

    def _listed(self, query: Query) -> Iterator[Object]:
        return self._views.matching(self.ask(query))

    def ask(self, asked: ObjectRef | Query) -> Question:
        """Records a read of an object, or of the objects that match. Raises `Denied`."""
        if isinstance(asked, Query):
            return self._record(self._question(asked))
        if is_pattern(asked.kind):
            raise RunEnded(
                f"{asked.kind} is a pattern: it can be listed, and no single object of it be read"
            )
        self._check(asked.kind, asked.namespace)
        return self._record(Question(asked.kind, "get", asked.namespace, asked.name))

    def _question(self, query: Query) -> Question:
        kind, namespace, which = query.kind, query.namespace, query.which
        try:
            selector = None if which.labels is None else parse_labels(which.labels)
        except SelectorError as error:
            raise RunEnded(str(error)) from None
        self._check(kind, namespace)
        if selector is not None:
            values = sum(len(each.values) for each in selector.requirements)
            if len(selector.requirements) > _MAX_CONDITIONS or values > _MAX_VALUES:
                raise RunEnded(
                    f"a selector of more than {_MAX_CONDITIONS} conditions, or {_MAX_VALUES} values"
                )
        if which.index is not None:
            self._views.check_index(kind, which.index[0])
        return Question(kind, "list", namespace, selector=selector, index=which.index)

    def _kinds(self, pattern: str) -> list[ServedKind]:
        if not is_kind(pattern) and not is_pattern(pattern):
            raise RunEnded(not_a_kind(pattern))
        try:
            found = self._views.kinds(pattern)
        except Denied as error:
            self.denied = self.denied or error
            raise
        self._record(Question(pattern, "kinds"))
        return found

    def _now(self) -> int:
        self.has_read_clock = True
        return self._now_ms

    def _log(self, level: str, message: str, fields: Fields) -> None:
        said = "".join(f" {name}={value}" for name, value in fields)
        self._lines.append(f"{level.upper()} {message}{said}")

    def _check(self, kind: str, namespace: str | None) -> None:
        if not is_kind(kind) and not is_pattern(kind):
            raise RunEnded(not_a_kind(kind))
        try:
            self._views.check(kind, namespace)
        except Denied as error:
            self.denied = self.denied or error
            raise

    def _record(self, question: Question) -> Question:
        self.questions.add(question)
        if len(self.questions) > _MAX_READS:
            raise RunEnded(f"more than {_MAX_READS} different reads in one reconcile")
        return question


def _after(found: Iterator[Object], kind: str, after: ObjectRef) -> Iterator[Object]:
    """The objects of a list that come after this one. Of a pattern the kind counts, too."""
    if not is_pattern(kind):
        return (each for each in found if ref_of(each)[1:] > after[1:])
    return (each for each in found if order_of(ref_of(each)) > order_of(after))
