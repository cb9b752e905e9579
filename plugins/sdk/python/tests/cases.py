"""The cases of `wit/cases`, which say what the host accepts and refuses."""

import json
from pathlib import Path

WIT = Path(__file__).parents[4] / "wit"


def cases(name):
    """The cases of a file, with `{"times": n, "of": x}` in a list written out."""
    return _expanded(json.loads((WIT / "cases" / name).read_text()))


def whole(manifest):
    """The manifest of a case, with what it leaves out of what it must have."""
    said = {"name": "p", "version": "1.0.0", **manifest}
    return said if "reconciles" in said else {"singleton": True, **said}


def _expanded(value):
    if isinstance(value, dict):
        return {name: _expanded(member) for name, member in value.items()}
    if not isinstance(value, list):
        return value
    found = []
    for element in value:
        if isinstance(element, dict) and set(element) == {"times", "of"}:
            found += [_expanded(element["of"])] * element["times"]
        else:
            found.append(_expanded(element))
    return found
