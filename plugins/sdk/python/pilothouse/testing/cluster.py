"""A cluster in memory for the tests of a controller."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from ..changes import Effect, to_json
from ..controller import Controller
from ..objects import EPOCH, ObjectRef
from ..outcome import Failure, Outcome, Retry
from .execution import Execution, WriteFailure
from .failing import Failing
from .keys import Keys
from .parts import Object
from .reconciling import Decided, Reconciler, Told
from .schedule import Key, Schedule, back_off
from .server import Server
from .views import Views

_MAX_RUNS = 10_000
_LONGEST_REST = timedelta(hours=1)
_PROBE_EVERY = timedelta(seconds=1)
"""How soon a key is tried again whose write was not answered."""


@dataclass(frozen=True)
class Run:
    """One reconcile of `FakeCluster.run_due`. Runs are compared by their key and error."""

    key: ObjectRef | None
    """The object of its key. None for a singleton."""
    error: str | None = None
    """Why it failed."""
    effects: list[Effect] = field(default_factory=list, compare=False)
    """What became of each write: what the key's next reconcile gets as `previous`."""


class FakeCluster:
    """A cluster in memory, seen through one controller's manifest, all of which is granted.

    It refuses what the host refuses, in the same words: a manifest, a read of what the manifest
    does not name (another kind, another namespace), and an outcome (a write that is not declared,
    a finalizer inside an apply, an owner that the plugin does not see, …). It shows the controller
    what the host shows: objects cut to the manifest's fields, label selectors in both forms,
    indexes. Each reconcile runs twice on copies of the same, and fails the test (`AssertionError`)
    if it returns or reads something else the second time: it must be pure. What would end the run
    in the host (a kind or a selector that cannot be parsed, an undeclared index) ends the test, and
    so does an exception of the controller that is neither `Retry` nor `Terminal`.

    `reconcile` runs a key and writes nothing; `write` then does what it returned, on the conditions
    of what it saw. `turn` does both, and the next reconcile sees the result. `run_due` runs the
    keys that the host would run. What an outcome has confirmed is asked of the server, which also
    has what `add_unseen` has added and no reconcile has seen. If it contradicts, nothing is
    written.

    What it does not check or do: it is Python code beside the host's, held to it by `wit/cases`
    (every manifest and outcome there) and `plugins/sdk/cases`, and not by more. It knows no
    schemas: it fills in no defaults, validates no object, replaces lists as a whole (but for
    finalizers and owners), takes every kind to have a `status` subresource, converts nothing
    between versions of a kind, and has no strategic merge patch. An object has a generation if
    it has a `spec`. There is no garbage collector: objects survive their owners. One without
    finalizers goes at once when it is deleted, a Pod, too. There is no admission, no quota (but
    `fail`), no other field managers than the plugin and everybody else; writes to subresources
    other than `status` have no effect. Grants below the manifest, fuel, memory and time limits,
    and the total size of an outcome or of all memos are not looked at. While writes get no
    answer, other keys run all the same; pauses after frequent requeues, loops of a key's own
    writes, resyncs and quarantine do not happen. Secret values are always there. A strange name
    or label that Kubernetes would refuse is taken."""

    def __init__(self, controller: Controller, *objects: Object) -> None:
        """A cluster with these objects, at 1970-01-01, with the configuration `{}`."""
        if not isinstance(controller, Controller):
            raise TypeError(f"{controller!r} is not decorated with @controller")
        manifest = controller.manifest
        self._optional = manifest.optional_kinds()
        self._server = Server()
        self._views = Views(manifest, self._server)
        self._keys = Keys(manifest, self._views)
        self._reconciler = Reconciler(controller, self._views, self._keys)
        self._schedule = Schedule()
        self._withheld: set[Key] = set()
        """The key, if its own writes would have run it: it may be settled."""
        self._is_overtaken = False
        """Whether others have changed something since the last reconcile, which it has not seen."""
        self._decided_at = 0
        """The server's version at the last reconcile."""
        self._has_begun = False
        self._last: Decided | None = None
        """The last reconcile, until its outcome is written."""
        self.lines: list[str] = self._reconciler.lines
        """The lines logged so far, in the form `INFO message name=value`."""
        self.add(*objects)

    def add(self, *objects: Object) -> None:
        """Adds whole objects. One replaces an object of the same kind, namespace and name, as an
        update of another client would.

        What an object does not say of `metadata` is as the API server sets it: uid,
        creationTimestamp (the time of `at`), resourceVersion, and a generation that moves with its
        content. To put another object in the place of one, give it another uid.
        """
        for value in objects:
            ref, before = self._server.place(value)
            self._wake(ref, before)

    def add_unseen(self, *objects: Object) -> None:
        """Adds whole objects, or replaces them, that no watch has brought yet: a reconcile sees
        what was there before. The next change of the kind brings them, and so does the server when
        it is asked to confirm them."""
        for value in objects:
            self._server.hide(value)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Deletes an object as another client would: it goes, or waits for its finalizers."""
        ref = ObjectRef(kind, namespace, name)
        before = self._server.get(ref)
        self._server.delete(ref)
        self._wake(ref, before)

    def object(self, kind: str, namespace: str, name: str) -> Object | None:
        """The whole object, as it is stored."""
        return copy.deepcopy(self._server.get(ObjectRef(kind, namespace, name)))

    @property
    def events(self) -> list[dict[str, Any]]:
        """The Events written so far, with the members of the contract's record `event`."""
        return [note for _, note in self._server.events]

    def at(self, now: datetime) -> None:
        """Sets the time. It must have a zone."""
        if now.tzinfo is None:
            raise ValueError(f"{now!r} has no time zone: give it one, such as timezone.utc")
        self._server.now = now

    def configure(self, config: dict[str, Any]) -> None:
        """Sets the plugin's configuration. It is not checked against `config_schema`."""
        self._reconciler.config = json.loads(to_json(config))
        for key, known in self._schedule.known.items():
            known.memo, known.not_before = None, EPOCH
            self._schedule.wake(key)

    def forget_memos(self) -> None:
        """From now on no reconcile is given a memo. The host may forget memos at any time, so a
        test should come to the same end with this."""
        self._reconciler.forgets_memos = True

    def without(self, kind: str) -> None:
        """From now on, the cluster does not serve this kind, which the manifest says is optional.
        Its objects are there again when it does (`serving`)."""
        self._serve(kind, False)

    def serving(self, kind: str) -> None:
        """From now on, the cluster serves this kind, which it has been `without`."""
        self._serve(kind, True)

    def _serve(self, kind: str, is_served: bool) -> None:
        if kind not in self._optional:
            raise ValueError(f"the manifest does not say that {kind} is optional")
        self._last = None
        self._views.absent = (
            self._views.absent - {kind} if is_served else self._views.absent | {kind}
        )
        if not self._has_begun:
            return
        self._schedule.keep(self._keys.has)
        for key in {*self._schedule.known, *self._keys.first(self._server.all_seen())}:
            if self._keys.has(key):
                self._schedule.wake(key)

    def fail(
        self,
        verb: str,
        kind: str,
        error: str,
        *,
        subresource: str | None = None,
        name: str | None = None,
        after: int = 0,
        times: int | None = 1,
    ) -> None:
        """Lets the next write of this verb to an object of this kind fail.

        - `verb`: as in the manifest's `writes`. A finalizer action is a `patch`; the applies and
          deletes of a `children` action are writes like others.
        - `error`: `invalid` (400), `forbidden` (403), `not-found`, `conflict` (409),
          `already-exists`, `too-many-requests` (429, for a second), `server-error` (500),
          `no-answer` (and not done), or `answer-lost` (but done).
        - `subresource`: only writes to this one; without it, only those to objects themselves.
        - `name`: only writes to the object of this name.
        - `after`: so many such writes are done before.
        - `times`: so many of them fail; None: all, until `heal`.

        Raises `ValueError` for what never fails so.
        """
        failing = Failing(verb, kind, error, subresource, name, after, times)
        self._server.failing.add(failing)

    def heal(self) -> None:
        """From now on, no write fails because of `fail`."""
        self._server.failing.clear()

    def reconcile(
        self,
        namespace: str = "",
        name: str = "",
        *,
        kind: str | None = None,
        attempt: int | None = None,
        previous: Iterable[Effect] | None = None,
        memo: Any = None,
    ) -> Outcome:
        """Runs a key, and writes nothing. If the controller reconciles several kinds, say which.

        `attempt`, `previous` and `memo` are what a later try is told; without them, what the key's
        last `turn` has left. Raises what the controller raises, and `Terminal` with the host's
        message if the host would refuse the outcome, or if the controller went on after a denied
        read.
        """
        key = self._keys.key_of(namespace, name, kind)
        self._last = self._reconcile(key, Told(attempt, previous, memo))
        return self._last.outcome

    def write(self) -> list[Effect]:
        """Does what the last `reconcile` returned, on the conditions of what it saw, though the
        test may have changed objects meanwhile. Returns what became of each write: nothing, if the
        server contradicts what the reconcile has seen."""
        if self._last is None:
            raise AssertionError("write() does what the last reconcile() returned: call that first")
        decided, self._last = self._last, None
        self._is_overtaken = self._decided_at != self._server.version
        if self._is_contradicted(decided):
            return []
        self._perform(decided)
        return self._schedule.of(decided.key).previous

    def turn(self, namespace: str = "", name: str = "", *, kind: str | None = None) -> Outcome:
        """Runs a key and writes what it returns. Raises what `reconcile` raises."""
        key = self._keys.key_of(namespace, name, kind)
        try:
            decided = self._reconcile(key)
        except Failure:
            self._schedule.of(key).attempt += 1
            raise
        if not self._is_contradicted(decided):
            self._perform(decided)
        return decided.outcome

    def run_due(self) -> list[Run]:
        """Runs the keys that the host would run now, and those that their writes wake, until none
        is due. Returns them in the order in which they ran.

        At first these are the keys of all objects that the manifest reconciles; after that those
        for which something that they have read has changed, and those whose time has come (`at`).
        """
        if not self._has_begun:
            self._has_begun = True
            self._schedule.add_first(self._keys.first(self._server.all_seen()))
        runs: list[Run] = []
        while (key := self._schedule.next(self._server.now)) is not None:
            runs.append(self._run(key))
            if len(runs) >= _MAX_RUNS:
                raise AssertionError(
                    f"{_MAX_RUNS} reconciles, and keys are still due: the controller never comes "
                    "to rest"
                )
        return runs

    def _run(self, key: Key) -> Run:
        """Runs a key to the end of its writes."""
        known = self._schedule.of(key)
        known.due = None
        try:
            decided = self._reconcile(key)
        except Failure as error:
            if isinstance(error, Retry):
                known.due = self._server.now + back_off(known.attempt)
            known.attempt += 1
            return Run(key.ref, str(error))
        if self._is_contradicted(decided):
            return Run(key.ref)
        attempt, after = known.attempt, decided.outcome.after
        failure = self._perform(decided)
        if failure is None:
            known.due = self._server.now + after if after else None
        elif failure.is_unavailable:
            known.due = known.not_before = self._server.now + _PROBE_EVERY
        else:
            known.due = self._server.now + max(back_off(attempt), failure.retry_after)
        return Run(key.ref, failure.text if failure else None, list(known.previous))

    def _reconcile(self, key: Key, told: Told = Told()) -> Decided:
        known = self._schedule.of(key)
        self._decided_at = self._server.version
        return self._reconciler.reconcile(key, known, self._server.now, told)

    def _is_contradicted(self, decided: Decided) -> bool:
        """Whether the server does not have what the outcome wants to have confirmed. Then the
        watches bring it, which runs the key again, because questions are reads. What writes nothing
        asks nothing."""
        steps = [step for _, stage in decided.plan for step in stage]
        if not any(step.write and step.verb != "event" for step in steps):
            return False
        lists = [each.differing(self._views, self._server) for each in decided.confirmed]
        differing = [ref for refs in lists for ref in refs]
        for ref in differing:
            self._bring(ref)
        return bool(differing)

    def _perform(self, decided: Decided) -> WriteFailure | None:
        """Does what an outcome says. Returns why the key is to be retried."""
        outcome = decided.outcome
        settling = decided.key if decided.is_settled else None
        wake = partial(self._wake, settling=settling)
        execution = Execution(self._server, self._views, self._reconciler.applied, wake)
        known = self._schedule.of(decided.key)
        known.memo = None if decided.is_gone else outcome.memo
        known.not_before = self._server.now + min(outcome.rest, _LONGEST_REST)
        known.previous = execution.run(decided.plan)
        failure = execution.failure
        if failure is None and outcome.retry_text is not None:
            failure = WriteFailure(outcome.retry_text)
        if failure is None or not failure.is_unavailable:
            known.attempt = 1 if failure is None else known.attempt + 1
        if settling and failure is None and not self._is_overtaken:
            self._check_settled(decided)
        elif settling and settling in self._withheld:
            self._schedule.wake(settling)
        self._withheld.clear()
        self._is_overtaken = False
        return failure

    def _check_settled(self, settled: Decided) -> None:
        """Raises an `AssertionError` if a key whose outcome is settled would write something if it
        ran again, read what it has not read, or run at another time."""
        key = settled.key
        known = self._schedule.of(key)
        says = f"the outcome of {key} says that it is settled, but the next run"
        try:
            again = self._reconcile(key)
        except Failure as error:
            raise AssertionError(f"{says} fails: {error}") from error
        known.questions = settled.questions
        steps = [step for _, stage in again.plan for step in stage]
        writes = [step for step in steps if step.write and step.verb != "event"]
        if writes:
            raise AssertionError(f"{says} would {writes[0].verb} {writes[0].ref}")
        if more := again.questions - settled.questions:
            raise AssertionError(f"{says} would read what it has not: {min(map(str, more))}")
        if again.outcome.after != settled.outcome.after:
            raise AssertionError(f"{says} would run again after {again.outcome.after}")

    def _wake(
        self, ref: ObjectRef, before: Object | None, settling: Key | None = None
    ) -> None:
        """An object was changed: the watches bring it, and what else they have not brought of the
        kind. `settling`: the key that has changed it and need not run for that."""
        for unseen in self._server.unseen(ref.kind):
            if unseen != ref:
                self._is_overtaken |= settling is not None
                self._bring(unseen)
        shown, after = self._server.bring(ref, before)
        # The end of an object is not withheld.
        self._tell(ref, shown, after, settling if after is not None else None)

    def _bring(self, ref: ObjectRef) -> None:
        """The watches bring an object that they have not brought as it is."""
        before, after = self._server.bring(ref, self._server.get(ref))
        self._tell(ref, before, after)

    def _tell(
        self,
        ref: ObjectRef,
        before: Object | None,
        after: Object | None,
        settling: Key | None = None,
    ) -> None:
        """Wakes the keys for which an answer is another one now, but for one: that is noted."""
        if before == after or not self._has_begun:
            return
        touched = self._keys.touched(ref, before, after)
        for key, known in self._schedule.known.items():
            if any(self._views.is_touched(each, before, after) for each in known.questions):
                touched.append(key)
        for key in touched:
            if key == settling:
                self._withheld.add(key)
            else:
                self._schedule.wake(key)
