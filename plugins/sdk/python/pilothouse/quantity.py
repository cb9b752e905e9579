"""Quantities of resources: `100m` CPUs, `1.5Gi` bytes. The rules are Kubernetes'."""

from __future__ import annotations

import functools
import re

_NANO = 10**9
"""Parts of a whole: the smallest quantity is a billionth."""
_MOST = 2**127 - 1
"""The most billionths, as in the Rust SDK."""
_MAX_BINARY = (2**63 - 1) * _NANO
"""What a quantity with a binary suffix is at most, in Kubernetes."""

_DECIMAL = {power: suffix for power, suffix in zip(range(-9, 19, 3), "n u m _ k M G T P E".split())}
_DECIMAL[0] = ""
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

_TEXT = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(.*)", re.ASCII | re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)


class InvalidQuantity(ValueError):
    """A text that is not a `Quantity`."""

    def __init__(self, text: str) -> None:
        super().__init__(f'"{text}" is not a quantity; write 100m, 1.5Gi or 2e3')


@functools.total_ordering
class Quantity:
    """An amount of a resource, such as a Pod's `resources.requests.memory`.

    `Quantity("1.5Gi")` reads it as Kubernetes does, and `str` writes it in Kubernetes' canonical
    form: without a fraction, with the largest suffix of the same sort that loses nothing. Parts of
    a billionth are rounded up. Quantities are compared by their amount: `1` equals `1000m`. A sum
    is written as its first part, or if that is zero, as its second. What is beyond 170 billion `E`
    is refused. In a document, write `str(quantity)`.
    """

    __slots__ = ("_format", "_nano")
    _nano: int
    _format: str

    def __init__(self, said: str | int | float | Quantity = 0) -> None:
        """A text, or a number of whole units. Raises `InvalidQuantity` for a text that is none."""
        if isinstance(said, Quantity):
            self._nano, self._format = said._nano, said._format
        else:
            self._nano, self._format = _parse(str(said))

    @classmethod
    def milli(cls, thousandths: int) -> Quantity:
        """So many thousandths: `Quantity.milli(100)` is `100m`."""
        return cls._of(thousandths * (_NANO // 1_000), "decimal")

    @classmethod
    def bytes(cls, count: int) -> Quantity:
        """So many bytes, written with a binary suffix: `Quantity.bytes(1024)` is `1Ki`."""
        return cls._of(count * _NANO, "binary")

    @classmethod
    def _of(cls, nano: int, form: str) -> Quantity:
        made = cls()
        made._nano, made._format = nano, form
        return made

    @property
    def value(self) -> int:
        """The amount in whole units. A fraction is rounded away from zero, as Kubernetes does:
        `100m` is 1."""
        return self._in_parts_of(_NANO)

    @property
    def milli_value(self) -> int:
        """The amount in thousandths, rounded as `value` is."""
        return self._in_parts_of(_NANO // 1_000)

    def _in_parts_of(self, part: int) -> int:
        parts = -(-abs(self._nano) // part)
        return parts if self._nano >= 0 else -parts

    def __str__(self) -> str:
        if not self._nano:
            return "0"
        # Less than the smallest binary suffix, or a fraction, is written with a decimal one.
        is_binary = abs(self._nano) >= 1_024 * _NANO and self._nano % _NANO == 0
        if self._format == "binary" and is_binary:
            return self._binary()
        return self._decimal(self._format == "exponent")

    def _decimal(self, is_exponent: bool) -> str:
        amount, power = self._nano, -9
        while amount % 10 == 0:
            amount, power = amount // 10, power + 1
        while power % 3 or (power > 18 and not is_exponent):
            amount, power = amount * 10, power - 1
        if is_exponent:
            return f"{amount}e{power}" if power else str(amount)
        return f"{amount}{_DECIMAL[power]}"

    def _binary(self) -> str:
        amount, suffix = self._nano // _NANO, ""
        for following in _BINARY:
            if amount % 1_024:
                break
            amount, suffix = amount // 1_024, following
        return f"{amount}{suffix}"

    def __repr__(self) -> str:
        return f'Quantity("{self}")'

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self._nano == other._nano

    def __lt__(self, other: Quantity) -> bool:
        return self._nano < other._nano if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._nano)

    def __bool__(self) -> bool:
        return self._nano != 0

    def __neg__(self) -> Quantity:
        return self._of(-self._nano, self._format)

    def __add__(self, other: Quantity) -> Quantity:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self._of(self._nano + other._nano, self._format if self._nano else other._format)

    def __radd__(self, other: int) -> Quantity:
        """`sum` begins with 0."""
        return self if other == 0 else NotImplemented

    def __sub__(self, other: Quantity) -> Quantity:
        return self + -other if isinstance(other, Quantity) else NotImplemented


def _parse(text: str) -> tuple[int, str]:
    """The billionths, and how they are written."""
    matched = _TEXT.fullmatch(text)
    if matched is None or not text:
        raise InvalidQuantity(text)
    sign, whole, fraction, suffix = matched.groups(default="")
    form, power, factor = _interpret(suffix, text)
    # As Kubernetes takes it, a sign or a suffix alone is nothing.
    nano = _billionths(int(whole + fraction or "0") * factor, power + 9 - len(fraction))
    if form == "binary":
        nano = min(nano, _MAX_BINARY)
        # What is less than one has no binary suffix any more.
        form = form if nano >= _NANO else "decimal"
    if nano > _MOST:
        raise InvalidQuantity(text)
    return (-nano if sign == "-" else nano), form


def _interpret(suffix: str, text: str) -> tuple[str, int, int]:
    """A suffix as a format, a power of ten and a factor."""
    for power, known in _DECIMAL.items():
        if suffix == known:
            return "decimal", power, 1
    if suffix in _BINARY:
        return "binary", 0, 1_024 ** (_BINARY.index(suffix) + 1)
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None:
        raise InvalidQuantity(text)
    return "exponent", int(exponent[1]), 1


def _billionths(digits: int, power: int) -> int:
    """Digits times a power of ten, rounded up."""
    if not digits:
        return 0
    if power >= 0:
        # More is too much, however much it is.
        return int(digits * 10 ** min(power, 60))
    # Less than one is one, however small it is.
    return int(-(-digits // 10 ** min(-power, len(str(digits)) + 1)))
