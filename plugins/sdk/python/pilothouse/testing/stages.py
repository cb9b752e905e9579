"""The order within a stage: which step can be taken next, and which must be left out."""

from __future__ import annotations

from collections import deque
from typing import Any

from .planner import Step
from .server import address


class StageOrder:
    """The steps of a stage, by their numbers, in a lane for each object.

    Steps of one object are taken in order, each when the one before has ended; others in the order
    of the actions. What fails stops nothing else of its stage, but later steps on its object, after
    a create of an object all creates of objects, and after an apply of a `children` action that has
    not succeeded the action's deletes, which wait for all of these.
    """

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._lanes: dict[Any, deque[int]] = {}
        self._ready: set[int] = set()
        self._gated: list[int] = []
        self._blocked: set[Any] = set()
        self._unapplied = sum(step.member == "wanted" for step in steps)
        self._has_create_failed = self._is_member_missing = False
        for number, step in enumerate(steps):
            self._lanes.setdefault(address(step.ref), deque()).append(number)
        for lane in self._lanes.values():
            self._offer(lane)

    def take(self) -> int | None:
        """The next step that nothing else has to end for."""
        if not self._ready:
            return None
        number = min(self._ready)
        self._ready.remove(number)
        self._lane(number).popleft()
        return number

    def is_left_out(self, number: int) -> bool:
        """Whether a step must not be done."""
        step = self._steps[number]
        return (
            address(step.ref) in self._blocked
            or (self._has_create_failed and _is_new_object(step))
            or (self._is_member_missing and step.member == "unwanted")
        )

    def ended(self, number: int, is_done: bool | None) -> None:
        """A taken step has ended. None: it was left out."""
        step = self._steps[number]
        if not is_done:
            self._blocked.add(address(step.ref))
        self._has_create_failed |= _is_new_object(step) and is_done is False
        if step.member == "wanted":
            self._is_member_missing |= not is_done
            self._unapplied -= 1
        self._offer(self._lane(number))
        if self._unapplied == 0:
            self._ready.update(self._gated)
            self._gated = []

    def _lane(self, number: int) -> deque[int]:
        return self._lanes[address(self._steps[number].ref)]

    def _offer(self, lane: deque[int]) -> None:
        if lane:
            is_gated = self._steps[lane[0]].member == "unwanted" and self._unapplied > 0
            if is_gated:
                self._gated.append(lane[0])
            else:
                self._ready.add(lane[0])


def _is_new_object(step: Step) -> bool:
    return step.verb == "create" and step.write is not None and step.write.subresource is None
