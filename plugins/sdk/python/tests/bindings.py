"""Stands in for componentize-py's bindings: the same names, made from `wit/`."""

import dataclasses
import enum
import re
import types

from cases import WIT


class Err(Exception):
    """`componentize_py_types.Err`."""

    def __init__(self, value):
        super().__init__(value)
        self.value = value


def bindings(file, interface):
    """The types of an interface, as a module."""
    text = re.sub(r" *//.*", "", (WIT / file).read_text())
    text = re.search(rf"^interface {interface} {{$(.*?)^}}$", text, re.S | re.M).group(1)
    module = types.SimpleNamespace()
    for kind, name, body in re.findall(
        r"^  (record|enum|variant) (\S+) {$(.*?)^  }$", text, re.S | re.M
    ):
        members = re.findall(r"^    %?([a-z-]+)(\()?", body, re.M)
        for made in _types(kind, _camel(name), members):
            setattr(module, made.__name__, made)
    return module


def _types(kind, name, members):
    if kind == "enum":
        cases = [member.upper().replace("-", "_") for member, _ in members]
        return [enum.Enum(name, {case: number for number, case in enumerate(cases)})]
    if kind == "record":
        fields = [member.replace("-", "_") for member, _ in members]
        return [dataclasses.make_dataclass(name, fields)]
    return [
        dataclasses.make_dataclass(f"{name}_{_camel(case)}", ["value"] if value else [])
        for case, value in members
    ]


def _camel(name):
    return "".join(map(str.capitalize, name.split("-")))
