"""Connects the standard library's `logging` to the host's log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from .host import Host

_OWN = {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "taskName"}
_FORMATTER = logging.Formatter()


class HostHandler(logging.Handler):
    """Writes records to the host's log.

    The fields of a line are the record's `extra`, the logger's name (`logger`), and the traceback
    of an exception (`traceback`).
    """

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record."""
        fields = {name: value for name, value in vars(record).items() if name not in _OWN}
        fields.setdefault("logger", record.name)
        if record.exc_info and record.exc_info[0] is not None:
            fields["traceback"] = _FORMATTER.formatException(record.exc_info)
        self._host.log(_level(record.levelno), record.getMessage(), **fields)


def _level(number: int) -> str:
    for least, level in (
        (logging.ERROR, "error"),
        (logging.WARNING, "warn"),
        (logging.INFO, "info"),
    ):
        if number >= least:
            return level
    return "debug"


@contextmanager
def logging_to(host: Host) -> Iterator[None]:
    """Sends what is logged meanwhile to the host's log alone, from level INFO up.

    The host writes only the first hundred lines of a run, which verbose libraries would use up. A
    plugin that has set a level on the root logger keeps it.
    """
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    root.handlers = [HostHandler(host)]
    if level == logging.WARNING:  # what it is when nobody has set it
        root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)
