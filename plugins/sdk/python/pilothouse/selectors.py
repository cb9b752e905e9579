"""Label selectors, in kubectl's form and as objects hold them, and field selectors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .paths import parse_path, quoted, values_at

_SHOWN = 80


class SelectorError(ValueError):
    """A text or document that is no selector."""


class Requirement(NamedTuple):
    """One condition on an object's labels."""

    key: str
    operator: str
    """`=`, `in`, `notin`, `exists` or `absent`."""
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels fulfils it."""
        have = labels.get(self.key)
        if self.operator == "exists":
            return have is not None
        if self.operator == "absent":
            return have is None
        if self.operator == "notin":
            return have is None or have not in self.values
        return have is not None and have in self.values

    def __str__(self) -> str:
        if self.operator == "=":
            return f"{self.key}={self.values[0]}"
        if self.operator in ("in", "notin"):
            return f"{self.key} {self.operator} ({','.join(self.values)})"
        return self.key if self.operator == "exists" else f"!{self.key}"


class LabelSelector(NamedTuple):
    """Conditions that must all hold. Without conditions it selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def cut(text: str, most: int) -> str:
    """A text, or about its first bytes and `…`."""
    size = 0
    for at, char in enumerate(text):
        if size >= most:
            return text[:at] + "…"
        size += len(char.encode())
    return text


def compact(value: Any) -> str:
    """A value as JSON without white space, its members in order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def parse_labels(selector: Any) -> LabelSelector:
    """Parses a selector: a text in kubectl's form, or a LabelSelector as a dict or as JSON text.

    Raises `SelectorError`.
    """
    text = selector if isinstance(selector, str) else compact(selector)
    if not text.lstrip().startswith("{"):
        return LabelSelector(tuple(_Parser(text).requirements()))
    try:
        return LabelSelector(tuple(_of_document(json.loads(text))))
    except ValueError as problem:
        shown = quoted(cut(text, _SHOWN))
        raise SelectorError(f"label selector {shown} is not a LabelSelector: {problem}") from None


def _of_document(document: dict[str, Any]) -> list[Requirement]:
    _known(document, ("matchLabels", "matchExpressions"))
    labels = document.get("matchLabels") or {}
    if not isinstance(labels, dict):
        raise ValueError("matchLabels must be an object")
    found = [Requirement(key, "=", (_text(labels[key]),)) for key in sorted(labels)]
    expressions = document.get("matchExpressions") or []
    if not isinstance(expressions, list):
        raise ValueError("matchExpressions must be a list")
    return found + [_of_expression(expression) for expression in expressions]


_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def _of_expression(expression: Any) -> Requirement:
    if not isinstance(expression, dict):
        raise ValueError("a member of matchExpressions must be an object")
    _known(expression, ("key", "operator", "values"))
    for name in ("key", "operator"):
        if name not in expression:
            raise ValueError(f"missing field `{name}`")
    operator = _text(expression["operator"])
    if operator not in _OPERATORS:
        names = ", ".join(f"`{name}`" for name in _OPERATORS)
        raise ValueError(f"unknown variant `{operator}`, expected one of {names}")
    values = tuple(_text(value) for value in expression.get("values") or ())
    if operator in ("In", "NotIn") and not values:
        raise ValueError("the operators In and NotIn need values")
    if operator in ("Exists", "DoesNotExist") and values:
        raise ValueError("the operators Exists and DoesNotExist take no values")
    return Requirement(_text(expression["key"]), _OPERATORS[operator], values)


def _known(document: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in document:
        if name not in names:
            expected = " or ".join(f"`{known}`" for known in names)
            raise ValueError(f"unknown field `{name}`, expected {expected}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{compact(value)} is not a string")
    return value


_SPACE = " \t\r\n"
_TOKEN = re.compile(r"==|!=|[=!,()<>]|[^ \t\r\n=!,()<>\x0b\x0c]+")


class _Parser:
    """Reads a selector in kubectl's form from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        if not self._peek():
            return found
        while True:
            found.append(self._requirement())
            token = self._next()
            if not token:
                return found
            if token != ",":
                raise self._error("a comma or the end is missing")

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._key(), "absent")
        key = self._key()
        if self._peek() in ("", ","):
            return Requirement(key, "exists")
        operator = self._next()
        if operator in ("=", "=="):
            return Requirement(key, "=", (self._value(),))
        if operator == "!=":
            return Requirement(key, "notin", (self._value(),))
        if operator in ("in", "notin"):
            return Requirement(key, operator, self._values())
        raise self._error("the operator is none of =, ==, !=, in and notin")

    def _key(self) -> str:
        token = self._next()
        if not token or token[0] in "=!,()<>":
            raise self._error("a label's key is missing")
        return token

    def _value(self) -> str:
        token = self._peek()
        if token in ("", ",", ")"):
            return ""
        self._next()
        if token[0] in "=!(<>":
            raise self._error("a label's value is missing")
        return token

    def _values(self) -> tuple[str, ...]:
        if self._next() != "(":
            raise self._error("( is missing")
        values = []
        while True:
            values.append(self._value())
            token = self._next()
            if token == ")":
                return tuple(values)
            if token != ",":
                raise self._error(") is missing")

    def _peek(self) -> str:
        position = self.position
        token = self._next()
        self.position = position
        return token

    def _next(self) -> str:
        """The next word, or the empty text at the end."""
        while self.position < len(self.text) and self.text[self.position] in _SPACE:
            self.position += 1
        found = _TOKEN.match(self.text, self.position)
        if found is None:
            if self.position < len(self.text):
                raise self._error("a character that no selector has")
            return ""
        self.position = found.end()
        return found.group()

    def _error(self, problem: str) -> SelectorError:
        at = len(self.text[: self.position].encode())
        return SelectorError(
            f"label selector {quoted(cut(self.text, _SHOWN))}: {problem} at byte {at}; write it "
            "as kubectl does (app=web,tier in (a,b),!canary), or as a LabelSelector in JSON"
        )


class FieldSelector:
    """A field selector in the API server's syntax: `spec.nodeName=a,status.phase!=Failed`.

    Raises `ValueError` for a text that is none.
    """

    def __init__(self, kind: str, text: str) -> None:
        self._terms = [_term(kind, term) for term in text.split(",") if term]

    def matches(self, value: dict[str, Any]) -> bool:
        """Whether this object is selected."""
        for paths, absent, wanted, is_negated in self._terms:
            found = (text for path in paths for text in values_at(value, path) if text)
            if (next(found, absent) == wanted) == is_negated:
                return False
        return True


# Fields of built-in kinds that the server does not take literally from the object: booleans and
# numbers, whose zero values are left out, and names that are not paths.
_TYPED = {
    ("", "Pod", "spec.hostNetwork"): (["spec.hostNetwork"], "false"),
    ("", "Pod", "spec.host"): (["spec.nodeName"], ""),
    ("", "Node", "spec.unschedulable"): (["spec.unschedulable"], "false"),
    ("", "ReplicationController", "status.replicas"): (["status.replicas"], "0"),
    ("apps", "ReplicaSet", "status.replicas"): (["status.replicas"], "0"),
    ("batch", "Job", "status.successful"): (["status.succeeded"], "0"),
    ("", "Event", "source"): (["source.component", "reportingComponent"], ""),
}


def _term(kind: str, term: str) -> tuple[list[list[Any]], str, str, bool]:
    """A condition: the paths to its field, the value where it is missing, the wanted value."""
    if "!=" in term:
        (field, _, value), is_negated = term.partition("!="), True
    elif "=" in term:
        sign = "==" if "==" in term else "="
        (field, _, value), is_negated = term.partition(sign), False
    else:
        raise ValueError(f"{quoted(term)} is not of the form field=value or field!=value")
    field = field.strip()
    api_version, _, name = kind.rpartition("/")
    group = api_version.rpartition("/")[0]
    paths, absent = _TYPED.get((group, name, field), ([field], ""))
    return [parse_path(f".{path}") for path in paths], absent, value.strip(), is_negated
