# SPDX-License-Identifier: Apache-2.0
"""The part of a job's device time in which the device was throttled, and by what.

Two series meet here: what a counter says of throttling (by the driver or, for a device that is the
CPU, by the kernel), and how much the device worked for the job. Neither says which nanoseconds
were throttled, only how many of an interval. Of `length` ns with `held` throttled and `busy` worked
at least `held + busy - length` are both, and at most the smaller of the two. The most is taken,
because a device meets its limits while it works; what lies between is in the error.

Invariant: throttled time is taken from time in which the device worked or, for a CPU, in which a
thread that it waited for could run and did not. The causes of a device add up as before.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec

from stoker.probes.kernels.trace_summary import (
    THROTTLED,
    DeviceRow,
    Throttle,
    ThrottleRow,
    TraceSummary,
)

Source = Literal["counter", "sampled", "quota"]
"""The source of a throttle's time: the driver's counters, its present reasons as they were
looked up again and again, or the kernel's counters of a CPU quota."""

ANY = "any"
"""The counter of a driver that does not tell causes apart, or that adds them up."""
HELD = "launches held back"
"""The throttle by which the power loop holds launches back."""
NEAR_NS = 200_000_000
"""Readings closer together than this are one, the newest of them."""
POINTS_MAX = 64
"""The points of either series that wait for the other; beyond that the older ones are left out, and
what the device worked between them counts as not read."""


class ThrottleCount(NamedTuple):
    """The throttling of a device as it is known at one moment, CLOCK_MONOTONIC ns."""

    at_ns: int
    ns: Mapping[str, int]
    """Cause -> the ns so far; of sampled reasons: those in force now, with the value 1."""
    source: Source = "counter"
    spread: float = 0.0
    """The part of the counted time by which the counters themselves may be wrong."""


class WorkDone(NamedTuple):
    """The time in which a device worked or could have worked, up to one moment."""

    at_ns: int
    kernel_ns: int
    copy_ns: int
    runnable_ns: int

    @classmethod
    def of(cls, at_ns: int, row: DeviceRow) -> WorkDone:
        causes = row.causes
        return cls(at_ns, causes.kernel_ns, causes.copy_ns, causes.host_runnable_ns)


class Totals(msgspec.Struct):
    """The throttled time of one device so far."""

    source: Source = "counter"
    kernel_ns: int = 0
    copy_ns: int = 0
    runnable_ns: int = 0
    error_ns: int = 0
    unread_ns: int = 0
    """WorkDone in intervals of which no counter was read at both ends."""
    spread: float = 0.0
    looks: int = 0
    causes: dict[str, tuple[int, int]] = {}
    """Cause -> throttled ns, and its error."""
    last: WorkDone | None = None
    """The newest `WorkDone` that is counted."""

    @property
    def ns(self) -> int:
        return self.kernel_ns + self.copy_ns + self.runnable_ns

    def bound_ns(self) -> int:
        """Return the error of the whole."""
        error_ns = self.error_ns + self.unread_ns + int(self.ns * self.spread)
        return error_ns + (self._chance_ns() if self.source == "sampled" else 0)

    def _chance_ns(self) -> int:
        """Return the 95 % error of a share that was sampled: by its variance and, where every
        sample said the same, by the rule of three."""
        worked = max(self.last.kernel_ns if self.last is not None else 0, self.ns, 1)
        share, looks = self.ns / worked, max(self.looks, 1)
        error = max(1.96 * math.sqrt(share * (1 - share) / looks), 3 / looks)
        return int(worked * min(error, 1.0))


class Span(NamedTuple):
    """The part of an interval in which a throttle was in force: at least, likely, at most."""

    least: float = 0.0
    likely: float = 0.0
    most: float = 0.0


class DeviceThrottle:
    """The throttled time of one device of one job."""

    def __init__(self, totals: Totals | None = None) -> None:
        self.totals = totals or Totals()
        self._counted: deque[ThrottleCount] = deque(maxlen=POINTS_MAX)
        self._work: deque[WorkDone] = deque(maxlen=POINTS_MAX)
        self._sampled: ThrottleCount | None = None
        if self.totals.last is not None:
            self._work.append(self.totals.last)

    def count(self, found: ThrottleCount) -> None:
        """Take in what a counter says; an old reading that comes again changes nothing."""
        self.totals.source = found.source
        if found.source == "sampled":
            found = self._summed(found)
        if self._counted and found.at_ns <= self._counted[-1].at_ns:
            return
        self.totals.looks += 1
        self.totals.spread = found.spread
        if len(self._counted) > 1 and found.at_ns - self._counted[-2].at_ns < NEAR_NS:
            self._counted.pop()
        self._counted.append(found)

    def _summed(self, found: ThrottleCount) -> ThrottleCount:
        """Return sampled reasons as counters: a reason in force at one end of an interval counts
        half of it."""
        before, last = self._sampled, self._counted[-1] if self._counted else None
        if before is not None and found.at_ns <= before.at_ns:
            return found
        self._sampled = found
        if before is None or last is None:
            return found._replace(ns=dict.fromkeys(found.ns, 0))
        half_ns = (found.at_ns - before.at_ns) // 2
        now = {
            name: last.ns.get(name, 0) + half_ns * ((name in before.ns) + (name in found.ns))
            for name in {*last.ns, *found.ns}
        }
        return found._replace(ns=now)

    def work(self, done: WorkDone) -> None:
        """Take in how much the device worked so far, and settle what both series cover."""
        if self._work and done.at_ns <= self._work[-1].at_ns:
            return
        if len(self._work) == POINTS_MAX:
            before = self._work.popleft()
            self._leave_out(self._done(before, self._work[0]), self._work[0])
        self._work.append(done)
        self._settle()

    def end(self) -> None:
        """Settle what is left: the newest counter goes on at its last rate, which is a guess."""
        if not self._counted or not self._work:
            return
        to_ns, newest = self._work[-1].at_ns, self._counted[-1]
        if to_ns > newest.at_ns:
            self._counted.append(_continued(self._counted, to_ns))
            self._settle(guessed_ns=newest.at_ns)

    def _settle(self, guessed_ns: int | None = None) -> None:
        counted = self._counted
        while len(self._work) > 1 and counted and counted[-1].at_ns >= self._work[1].at_ns:
            before, after = self._work.popleft(), self._work[0]
            since_ns = after.at_ns if guessed_ns is None else max(guessed_ns, before.at_ns)
            self._step(before, after, max(0, after.at_ns - since_ns))
            while len(counted) > 2 and counted[1].at_ns <= after.at_ns:
                counted.popleft()

    def _step(self, before: WorkDone, after: WorkDone, guessed_ns: int) -> None:
        """Count the throttled part of the work between two points, of which the end was guessed."""
        totals, length = self.totals, after.at_ns - before.at_ns
        done = self._done(before, after)
        busy = sum(done)
        if self._counted[0].at_ns > before.at_ns:
            self._leave_out(done, after)
            return
        totals.last = after
        spans = self._spans(before.at_ns, after.at_ns)
        held = spans.pop(ANY, None) or _together(spans.values(), length)
        ns, error_ns = _both(held, busy, length)
        kernel, copy, runnable = _divided(ns, done)
        totals.kernel_ns += kernel
        totals.copy_ns += copy
        totals.runnable_ns += runnable
        guess_ns = min(busy, guessed_ns)
        totals.error_ns += min(busy, error_ns + guess_ns)
        for name, span in (spans or {ANY: held}).items():
            part, part_error = _both(span, busy, length)
            sum_ns, sum_error = totals.causes.get(name, (0, 0))
            totals.causes[name] = sum_ns + part, sum_error + min(busy, part_error + guess_ns)

    def _done(self, before: WorkDone, after: WorkDone) -> list[int]:
        """Return the work between two points that a throttle can have slowed down."""
        done = [max(0, b - a) for a, b in zip(before[1:], after[1:], strict=True)]
        # A driver's throttle slows down what runs on the device, and nothing else.
        return done if self.totals.source == "quota" else [done[0], 0, 0]

    def _leave_out(self, done: list[int], after: WorkDone) -> None:
        self.totals.unread_ns += sum(done)
        self.totals.last = after

    def _spans(self, from_ns: int, to_ns: int) -> dict[str, Span]:
        """Return for how much of [from, to) each cause was in force. Where a reading lies inside,
        it is not known on which side of the end a counter grew."""
        found: dict[str, Span] = {}
        for before, after in pairwise(self._counted):
            inside = min(to_ns, after.at_ns) - max(from_ns, before.at_ns)
            if inside <= 0:
                continue
            length = after.at_ns - before.at_ns
            for name, ns in after.ns.items():
                unknown = 0 if after.source == "sampled" else ns  # no reason was in force
                grown = max(0, ns - before.ns.get(name, unknown))
                least, likely, most = found.get(name, Span())
                found[name] = Span(
                    least + max(0, grown - (length - inside)),
                    likely + grown * inside / length,
                    most + min(grown, inside),
                )
        return found


def _together(spans: Iterable[Span], length: int) -> Span:
    """Return for how long any of several throttles was in force: they may overlap or not."""
    every = list(spans)
    return Span(
        max((span.least for span in every), default=0.0),
        max((span.likely for span in every), default=0.0),
        min(sum(span.most for span in every), length),
    )


def _both(held: Span, busy: int, length: int) -> tuple[int, int]:
    """Return how much of the busy time was throttled, and the error."""
    least = max(0.0, held.least + busy - length)
    likely, most = min(held.likely, busy), min(held.most, busy)
    return int(likely), math.ceil(max(likely - least, most - likely))


def _divided(ns: int, parts: list[int]) -> list[int]:
    """Divide `ns` in proportion to the parts; the largest part takes the remainder."""
    whole = sum(parts)
    if not whole:
        return [0] * len(parts)
    shares = [ns * part // whole for part in parts]
    shares[parts.index(max(parts))] += ns - sum(shares)
    return shares


def _continued(counted: deque[ThrottleCount], to_ns: int) -> ThrottleCount:
    newest = counted[-1]
    before = counted[-2] if len(counted) > 1 else newest
    length, ahead = newest.at_ns - before.at_ns, to_ns - newest.at_ns
    grown = {
        name: ns + (ns - before.ns.get(name, ns)) * ahead // length if length else ns
        for name, ns in newest.ns.items()
    }
    return newest._replace(at_ns=to_ns, ns=grown)


def with_throttles(
    summary: TraceSummary, devices: Mapping[str, Totals], reasons: Mapping[str, str]
) -> TraceSummary:
    """Return the trace with the throttled time of its devices. `reasons`: devices of which nothing
    is known, and why."""
    rows = tuple(_row(row, devices.get(row.id)) for row in summary.devices)
    absent = {key: why for key, why in summary.absent.items() if key not in THROTTLED.values()}
    unknown = [(row.id, reasons.get(row.id, "")) for row in rows if row.id not in devices]
    if unknown and all(why for _, why in unknown):
        held = any(row.causes.throttled_ns for row in rows)
        said = "; ".join(f"{id}: {why}" for id, why in unknown[:8])
        absent[THROTTLED[held]] = f"{said}. What it runs slower counts as kernel time"
    elif unknown:
        absent = dict(summary.absent)
    return msgspec.structs.replace(summary, devices=rows, absent=absent)


def _row(row: DeviceRow, totals: Totals | None) -> DeviceRow:
    held_ns = row.causes.throttled_ns
    causes = [ThrottleRow(HELD, held_ns, 0)] if held_ns else []
    if totals is None:
        throttle = Throttle("", 0, 0, tuple(causes)) if causes else None
        return msgspec.structs.replace(row, throttle=throttle) if throttle else row
    kernel_ns = min(totals.kernel_ns, row.causes.kernel_ns)
    copy_ns = min(totals.copy_ns, row.causes.copy_ns)
    runnable_ns = min(totals.runnable_ns, row.causes.host_runnable_ns)
    causes += [ThrottleRow(name, *parts) for name, parts in totals.causes.items() if parts[0]]
    causes.sort(key=lambda each: (-each.ns, each.cause))
    split = msgspec.structs.replace(
        row.causes,
        kernel_ns=row.causes.kernel_ns - kernel_ns,
        copy_ns=row.causes.copy_ns - copy_ns,
        host_runnable_ns=row.causes.host_runnable_ns - runnable_ns,
        throttled_ns=held_ns + kernel_ns + copy_ns + runnable_ns,
    )
    bound_ns = min(totals.bound_ns(), row.window_ns)
    throttle = Throttle(totals.source, kernel_ns + copy_ns, bound_ns, tuple(causes))
    return msgspec.structs.replace(row, causes=split, throttle=throttle)
