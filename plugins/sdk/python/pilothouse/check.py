"""The host's rules for a manifest, with its messages. `wit/cases` lists what it accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from .manifest import VERBS, Manifest, Read, Selection, Write
from .paths import EACH, FieldPathError, parse_path, quoted
from .selectors import FieldSelector, compact, cut, parse_labels
from .shapes import ShapeError, camel, group_of, includes, is_pattern, record

_MAX_BRANCHINGS = 2
_MAX_TEXT = 256 << 10
_MAX_SCHEMA = 256 << 10
_SHOWN = 80
_OF_PATTERNS = {"patch", "delete", "deletecollection"}
"""The verbs that can be asked for of a pattern."""


class ManifestError(ValueError):
    """The host would refuse the manifest. The text is the host's."""


def read_manifest(document: dict[str, Any]) -> Manifest:
    """Reads and checks the document of a manifest, as the host does.

    Raises `ManifestError` with the host's message for what the host refuses.
    """
    try:
        manifest: Manifest = record(Manifest)(document, "")
        _check_offered(manifest)
        _check_optional(manifest)
        _check_subject_form(manifest)
        _check(manifest)
    except (ShapeError, FieldPathError) as error:
        raise ManifestError(str(error)) from None
    return manifest


def check_key(namespace: str, name: str) -> str | None:
    """Why these cannot be an object's namespace and name. None if they can."""
    is_segment = name not in ("", ".", "..") and "/" not in name and "%" not in name
    if not is_segment or len(name) > 253 or not all("!" <= char <= "~" for char in name):
        return f"{quoted(name[:253])} is not an object's name"
    return check_namespace(namespace)


def check_namespace(namespace: str) -> str | None:
    """Why this cannot be an object's namespace, which may be empty. None if it can."""
    if namespace and not is_dns_label(namespace):
        return f"{quoted(namespace[:253])} is not a namespace's name"
    return None


def is_dns_label(text: str) -> bool:
    """Whether a text is a DNS label (RFC 1123), such as `kube-system`."""
    return re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text) is not None


def _check_offered(manifest: Manifest) -> None:
    if manifest.sources:
        raise ManifestError("sources: this host offers no calls; leave it out")


def _check_subject_form(manifest: Manifest) -> None:
    if bool(manifest.reconciles) == manifest.singleton:
        raise ManifestError('give either `reconciles` or `"singleton": true`, and not both')


def _check_optional(manifest: Manifest) -> None:
    declared: list[Selection | Read | Write] = [
        *manifest.reconciles, *manifest.reads, *manifest.writes
    ]
    optional = {each.kind for each in declared if each.optional}
    for each in declared:
        if each.kind in optional and not each.optional:
            raise ManifestError(
                f"{each.kind} is optional in one place of the manifest and not in another: say "
                '`"optional": true` wherever it is reconciled, read or written, or nowhere'
            )


def _check(manifest: Manifest) -> None:
    if not is_dns_label(manifest.name):
        raise ManifestError(
            f"name {quoted(cut(manifest.name, _SHOWN))} is not a DNS label (a-z, 0-9 and '-', at "
            "most 63 characters, starting and ending with a letter or digit)"
        )
    if manifest.name == "pilothouse":
        raise ManifestError('the name "pilothouse" is the host\'s own; choose another')
    _check_counts(manifest)
    _Texts().check_manifest(manifest)
    _check_reads(manifest)
    _check_patterns(manifest)
    _check_subject(manifest)
    _check_indexes(manifest)
    _check_writes(manifest)
    _check_limits(manifest)
    _check_config_schema(manifest)


def _at_most(count: int, most: int, what: str) -> None:
    if count > most:
        raise ManifestError(f"{count} {what}; a manifest has at most {most}")


def _check_counts(manifest: Manifest) -> None:
    reads, reconciles = manifest.reads, manifest.reconciles
    # One that selects nothing, so that there is a longest of each.
    selected: list[Read | Selection] = [*reads, *reconciles, Selection("v1/None")]
    terms = [len((each.field_selector or "").split(",")) for each in selected]
    labels = [len(str(parse_labels(each.labels)).encode()) for each in selected]
    verbs = max((len(write.verbs) for write in manifest.writes), default=0)
    namespaces = [len(read.namespaces) for read in reads]
    _at_most(verbs, len(VERBS), "verbs of a write")
    _at_most(max(terms), 16, "conditions in a field selector")
    _at_most(max(labels), 4 << 10, "bytes of a label selector")
    _at_most(len(reconciles), 16, "kinds in reconciles")
    companions = sum(len(selection.also_enqueued_by) for selection in reconciles)
    _at_most(companions, 100, "kinds in alsoEnqueuedBy")
    selected_namespaces = sum(len(selection.namespaces) for selection in reconciles)
    _at_most(selected_namespaces, 500, "namespaces in reconciles")
    _at_most(len(reads), 100, "kinds in reads")
    _at_most(max(namespaces, default=0), 20, "namespaces in a read")
    _at_most(sum(namespaces), 200, "namespaces in reads")
    _at_most(sum(len(read.fields) for read in reads), 1_000, "fields in reads")
    _at_most(sum(len(read.except_) for read in reads), 100, "kinds in except")
    _at_most(len(manifest.indexes), 16, "indexes")
    _at_most(sum(len(index.paths) for index in manifest.indexes), 64, "index paths")
    _at_most(len(manifest.writes), 500, "writes")


def _check_field_selector(kind: str, text: str | None) -> None:
    try:
        FieldSelector(kind, text or "")
    except ValueError as error:
        raise ManifestError(f"field selector: {error}") from None


def _must_read(manifest: Manifest, what: str, kind: str) -> None:
    if manifest.read_of(kind) is None:
        raise ManifestError(f"{what} {kind} is not among the manifest's reads; add it there")


def _check_reads(manifest: Manifest) -> None:
    seen = set()
    for read in manifest.reads:
        if read.kind in seen:
            raise ManifestError(
                f"{read.kind} is declared twice in reads; one declaration lists all its fields"
            )
        seen.add(read.kind)
        for field in read.fields:
            parse_path(field)
        _check_field_selector(read.kind, read.field_selector)


def _check_patterns(manifest: Manifest) -> None:
    reconciles = manifest.reconciles
    companions = [kind for selection in reconciles for kind in selection.also_enqueued_by]
    declared: list[Selection | Read | Write] = [*reconciles, *manifest.reads, *manifest.writes]
    for selection in reconciles:
        has_more = bool(selection.field_selector is not None or selection.also_enqueued_by)
        if is_pattern(selection.kind) and has_more:
            raise ManifestError(
                f"reconciles: the keys of {selection.kind} are selected by labels and namespaces "
                "alone; leave out fieldSelector and alsoEnqueuedBy"
            )
    for place, kinds in (
        ("alsoEnqueuedBy", companions),
        ("optional", sorted(each.kind for each in declared if each.optional)),
    ):
        for kind in filter(is_pattern, kinds):
            raise ManifestError(
                f"{place} {kind}: a pattern cannot stand here; name a kind"
            )
    _check_exceptions(manifest)
    patterns = [read for read in manifest.reads if is_pattern(read.kind)]
    for read in patterns:
        is_narrowed = bool(
            read.namespaces
            or parse_labels(read.labels).requirements
            or read.field_selector is not None
        )
        is_readable = all(_root_of(path) in ("metadata", "spec") for path in read.fields)
        if is_narrowed or not read.fields or not is_readable:
            raise ManifestError(
                f"reads: {read.kind} reads metadata and spec alone: give it fields below .metadata "
                "or .spec, and no namespaces or selectors"
            )
        for other in patterns:
            if other.kind != read.kind and includes(read.kind, other.kind):
                raise ManifestError(
                    f"reads: {read.kind} includes {other.kind}; declare one of them"
                )
    for index in manifest.indexes:
        is_metadata = all(_root_of(path) == "metadata" for path in index.paths)
        if is_pattern(index.kind) and not is_metadata:
            raise ManifestError(
                f"index {quoted(index.name)} of {index.kind}: a pattern is indexed by paths below "
                ".metadata alone"
            )
    for write in manifest.writes:
        is_more = write.subresource is not None or write.children
        if is_pattern(write.kind) and (is_more or not set(write.verbs) <= _OF_PATTERNS):
            raise ManifestError(
                f"writes: of {write.kind} only patch, delete and deletecollection of the object "
                "itself can be asked for; name the kind for others"
            )


def _check_exceptions(manifest: Manifest) -> None:
    for read in manifest.reads:
        for kind in read.except_:
            if is_pattern(kind) or not includes(read.kind, kind):
                raise ManifestError(
                    f"reads: {read.kind} cannot leave out {kind}: name kinds that the pattern "
                    "includes"
                )


def _root_of(path: str) -> object:
    """The first step of a path."""
    return next(iter(parse_path(path)), None)


def _check_subject(manifest: Manifest) -> None:
    seen = set()
    for selection in manifest.reconciles:
        if group_kind(selection.kind) in seen:
            raise ManifestError(
                f"reconciles: {selection.kind} is declared twice, or in two versions; an object "
                "has one key, so select all objects of a kind in one entry"
            )
        seen.add(group_kind(selection.kind))
        _must_read(manifest, "the reconciled kind", selection.kind)
        for companion in selection.also_enqueued_by:
            _must_read(manifest, "the alsoEnqueuedBy kind", companion)
        _check_field_selector(selection.kind, selection.field_selector)


def _check_indexes(manifest: Manifest) -> None:
    seen = set()
    for index in manifest.indexes:
        _must_read(manifest, "the indexed kind", index.kind)
        shown = f"index {quoted(index.name)} of {index.kind}"
        if (index.kind, index.name) in seen:
            raise ManifestError(f"{shown} is declared twice")
        seen.add((index.kind, index.name))
        if not index.paths:
            raise ManifestError(f"{shown} has no path")
        for path in index.paths:
            if parse_path(path).count(EACH) > _MAX_BRANCHINGS:
                raise ManifestError(
                    f"{shown}: {quoted(path)} has more than {_MAX_BRANCHINGS} [*]; each "
                    "multiplies what is indexed of an object"
                )


def group_kind(kind: str) -> tuple[str, str]:
    """Group and name of a kind, without its version."""
    return group_of(kind), kind.rpartition("/")[2]


def _check_writes(manifest: Manifest) -> None:
    for write in manifest.writes:
        versions = [
            read for read in manifest.reads if group_kind(read.kind) == group_kind(write.kind)
        ]
        # The plugin sees the object in the version that it writes, if it reads that version, and
        # otherwise in another.
        versions.sort(key=lambda read: read.kind != write.kind)
        is_whole = write.subresource is None
        if is_whole and "update" in write.verbs and versions and versions[0].fields:
            raise ManifestError(
                f"writes: update of {write.kind} replaces the whole object, but the manifest "
                "reads only some fields of it: read it whole (no fields), or write it with patch "
                "or apply"
            )
        if not write.children:
            continue
        _must_read(manifest, "the children kind", write.kind)
        read = manifest.read_of(write.kind)
        if read and (parse_labels(read.labels).requirements or read.field_selector is not None):
            raise ManifestError(
                f"reads: {write.kind} has children among the writes, so it cannot be narrowed by "
                "labels or fields"
            )
        if not is_whole or not {"apply", "delete"} <= set(write.verbs):
            raise ManifestError(
                f"writes: {write.kind} is marked children, which needs the verbs apply and delete "
                "on the object itself"
            )


def _check_limits(manifest: Manifest) -> None:
    for name in ("memory_bytes", "fuel", "timeout_milliseconds", "concurrency"):
        if getattr(manifest.limits, name) == 0:
            raise ManifestError(f"limits: {camel(name)} must be more than 0")


def _check_config_schema(manifest: Manifest) -> None:
    schema = manifest.config_schema
    if schema is None:
        return
    try:
        size = len(compact(schema).encode())
        json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ManifestError(f"configSchema is not JSON: {error}") from None
    _at_most(size, _MAX_SCHEMA, "bytes of configSchema")
    if not isinstance(schema, (dict, bool)):
        raise ManifestError("configSchema is not a schema: write an object, or a boolean")


def _is_subdomain(text: str) -> bool:
    return len(text) <= 253 and all(map(is_dns_label, text.split(".")))


def _is_label_name(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", text) is not None


def _is_label_key(text: str) -> bool:
    prefix, slash, name = text.partition("/")
    return _is_subdomain(prefix) and _is_label_name(name) if slash else _is_label_name(text)


def _is_label_value(text: str) -> bool:
    return not text or _is_label_name(text)


def _is_short(text: str) -> bool:
    return re.fullmatch(r"[ -~]{0,64}", text) is not None


def _is_kind_name(text: str) -> bool:
    return re.match(r"[A-Za-z]", text) is not None and is_dns_label(text.lower())


class _Texts:
    """Checks the texts of a manifest, each by itself and the length of all of them together."""

    def __init__(self) -> None:
        self._bytes = 0

    def check_manifest(self, manifest: Manifest) -> None:
        short = "at most 64 printable ASCII characters"
        self._check("version", [manifest.version], short, _is_short)
        for selection in manifest.reconciles:
            self._selected("reconciles", selection)
            for companion in selection.also_enqueued_by:
                self._kind("alsoEnqueuedBy", companion)
        for read in manifest.reads:
            self._selected("reads", read)
            self._long("fields", read.fields)
            for kind in read.except_:
                self._kind("except", kind)
        for index in manifest.indexes:
            self._kind("indexes", index.kind)
            self._check("indexes", [index.name], short, _is_short)
            self._long("paths", index.paths)
        for write in manifest.writes:
            self._kind("writes", write.kind)
            if write.subresource is not None:
                wanted = "a subresource: letters, digits, '-', '_' and '.', at most 63"
                self._check("writes", [write.subresource], wanted, _is_label_name)
        _at_most(self._bytes, _MAX_TEXT, "bytes of text (without configSchema)")

    def _check(
        self, place: str, texts: Iterable[str], wanted: str, is_right: Callable[[str], bool]
    ) -> None:
        for text in texts:
            self._bytes += len(text.encode())
            if not is_right(text):
                raise ManifestError(f"{place}: {quoted(cut(text, _SHOWN))} is not {wanted}")

    def _selected(self, place: str, selected: Any) -> None:
        self._kind(place, selected.kind)
        self._labels(selected.labels)
        wanted = "a namespace: a DNS label of at most 63 characters"
        self._check("namespaces", selected.namespaces, wanted, is_dns_label)
        self._long("fieldSelector", [selected.field_selector or ""])

    def _kind(self, place: str, kind: str) -> None:
        if kind == "*":
            return
        *group, version, name = kind.split("/")
        if is_pattern(kind):
            group, version, name = [group_of(kind)] if group_of(kind) else [], "v1", "Any"
        wanted = "an API group: empty, or a DNS subdomain of at most 253 characters"
        self._check(place, group, wanted, _is_subdomain)
        wanted = "an API version: a DNS label of at most 63 characters"
        self._check(place, [version], wanted, is_dns_label)
        wanted = "a kind: letters, digits and '-', at most 63, the first a letter"
        self._check(place, [name], wanted, _is_kind_name)

    def _long(self, place: str, texts: Iterable[str]) -> None:
        wanted = "a text of at most 1024 bytes"
        self._check(place, texts, wanted, lambda text: len(text.encode()) <= 1024)

    def _labels(self, selector: Any) -> None:
        requirements = parse_labels(selector).requirements
        _at_most(len(requirements), 32, "conditions in a selector")
        for requirement in requirements:
            wanted = "a label's key: [prefix/]name, as Kubernetes has it"
            self._check("labels", [requirement.key], wanted, _is_label_key)
            _at_most(len(requirement.values), 64, "values in a condition")
            wanted = "a label's value: letters, digits, '-', '_' and '.', at most 63"
            self._check("labels", requirement.values, wanted, _is_label_value)
