"""Write a Kubernetes controller for Pilothouse in Python.

A controller is a function from a key and a frozen snapshot of the cluster to a list of actions. It
needs no watches and no caches: the host records what a reconcile has read, and runs the key again
when a change would alter one of the answers. The README beside this package begins with nothing and
ends with a running plugin; `pilothouse.testing` runs a controller without a cluster.
"""

from .changes import (
    Action,
    Answer,
    Apply,
    Call,
    Children,
    Create,
    Delete,
    DeleteAll,
    Effect,
    Event,
    Finalizer,
    Patch,
    Update,
)
from .check import ManifestError
from .controller import Controller, controller
from .host import Host, Request, ServedKind
from .manifest import Index, Limits, Manifest, Read, Selection, Write, keeps_children
from .objects import (
    ObjectRef,
    condition,
    owner_reference,
    parse_rfc3339,
    rfc3339,
    set_condition,
)
from .outcome import Denied, Failure, Outcome, Retry, Stage, Terminal, Unavailable
from .quantity import InvalidQuantity, Quantity

__all__ = [
    "Action",
    "Answer",
    "Apply",
    "Call",
    "Children",
    "Controller",
    "Create",
    "Delete",
    "DeleteAll",
    "Denied",
    "Effect",
    "Event",
    "Failure",
    "Finalizer",
    "Host",
    "Index",
    "InvalidQuantity",
    "Limits",
    "Manifest",
    "ManifestError",
    "ObjectRef",
    "Outcome",
    "Patch",
    "Quantity",
    "Read",
    "Request",
    "Retry",
    "Selection",
    "ServedKind",
    "Stage",
    "Terminal",
    "Unavailable",
    "Update",
    "Write",
    "condition",
    "controller",
    "keeps_children",
    "owner_reference",
    "parse_rfc3339",
    "rfc3339",
    "set_condition",
]
