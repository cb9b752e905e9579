"""The decorator that makes a function a plugin."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

from . import wasm
from .changes import to_json
from .check import read_manifest
from .host import Host, Request
from .logs import logging_to
from .manifest import Index, Limits, Manifest, Read, Selection, Write
from .outcome import Failure, Outcome, Retry

Reconcile = Callable[[Request, Host], Outcome]


class Controller:
    """A plugin: a manifest, and a function that reconciles one key."""

    def __init__(self, manifest: Manifest, function: Reconcile) -> None:
        self.manifest = manifest
        self._function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__

    def __call__(self, request: Request, host: Host) -> Outcome:
        """Decides what should be done about one key. What `logging` is told goes to the host."""
        with logging_to(host):
            outcome = self._function(request, host)
        if not isinstance(outcome, Outcome):
            raise TypeError(
                f"{self.__name__} returned {outcome!r}, and not an Outcome: return Outcome() where "
                "nothing is to be done"
            )
        return outcome

    def describe(self) -> str:
        """The manifest as JSON."""
        return to_json(self.manifest.to_document())

    def run(self, request: Request, host: Host) -> Outcome:
        """Reconciles one key, as the host is told of it: what is raised is a `Failure`.

        An exception that is no `Failure` becomes a `Retry`, as controller-runtime does with an
        error: what raised it may be gone the next time, the delays grow up to 1,000 s, and a
        change of what was read runs the key before. The host's log gets the traceback.
        """
        try:
            return self(request, host)
        except Failure:
            raise
        except Exception as error:
            text = "".join(traceback.format_exception_only(type(error), error)).strip()
            host.error("reconcile raised", error=text, traceback=traceback.format_exc().strip())
            raise Retry(text) from error


def controller(
    *,
    name: str,
    version: str,
    reconciles: str | Selection | Sequence[Selection] = (),
    singleton: bool = False,
    reads: Sequence[str | Read] = (),
    indexes: Sequence[Index] = (),
    writes: Sequence[Write] = (),
    limits: Limits = Limits(),
    config_schema: dict[str, Any] | bool | None = None,
) -> Callable[[Reconcile], Controller]:
    """Makes a function the plugin of its module. The arguments are the manifest.

    A kind alone stands for all of its objects (`reconciles`) or for whole objects (`reads`). A
    module has one plugin, which componentize-py finds under the module's name `Plugin`.

    Raises `ManifestError` with the host's message for a manifest that the host refuses.
    """
    selected = [reconciles] if isinstance(reconciles, (str, Selection)) else reconciles
    said = Manifest(
        name,
        version,
        reconciles=[Selection(each) if isinstance(each, str) else each for each in selected],
        singleton=singleton,
        reads=[Read(each) if isinstance(each, str) else each for each in reads],
        indexes=indexes,
        writes=writes,
        limits=limits,
        config_schema=config_schema,
    )
    manifest = read_manifest(said.to_document())

    def register(function: Reconcile) -> Controller:
        made = Controller(manifest, function)
        names = getattr(function, "__globals__", {})
        # A module that is loaded again has the name already.
        if "Plugin" in names and getattr(names["Plugin"], "made_of", "") != function.__qualname__:
            raise TypeError(
                f"{function.__module__} has two plugins: put each into a module of its own"
            )
        names["Plugin"] = wasm.plugin_of(made, function.__qualname__)
        return made

    return register
