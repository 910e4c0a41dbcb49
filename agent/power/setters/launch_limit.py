# SPDX-License-Identifier: Apache-2.0
"""The limit of a device without a power limit of its own, whose jobs launch through a tracer.

Launches may begin only in a share of the time. If the device has a power sensor, the share follows
the measured power; else it is the limit's share of the declared power.

Invariants: the limit counts as in force only while every job on the device obeys it and the
measured power, if there is one, is not above it. Nothing has to be restored, since a share that is
no longer renewed ends by itself (native/records/throttle.h).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from stoker.agent.devices.readings import Absent
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.power.plan.card import PowerRange
from stoker.agent.power.setters.record import RecordedSetting
from stoker.agent.power.setters.without_clocks import WithoutClocks
from stoker.agent.tracing.launch_throttle import ThrottleAnswer
from stoker.probes.kernels.job_trace import HOLD_WHOLE
from stoker.scheduler.nouns import TaskKey

LEAST: Final = 0.1
"""The least share of its power that the device keeps, so that jobs go on, however slowly."""
LEAST_SHARE: Final = 0.005
"""The least share of time. It is small because a program that launches far ahead can keep a device
busy from short openings."""
GAIN: Final = 1.5
"""The integral gain: by how much the share changes per second if the power is off by the whole
declared power; stable up to a second of delay."""
STEP_S: Final = 0.5
"""The longest step of the integral in time, however late the call is."""
OVER: Final = 0.05
OVER_W: Final = 5.0
"""The most that a device may measure above its limit."""
OVER_S: Final = 5.0
"""A device above its limit for this long is not limited by its launches."""


class OnDevice(NamedTuple):
    """One job that was granted the device."""

    key: TaskKey
    untraced: str
    """Reason why it may launch without a tracer; empty if it cannot."""


def on_device(begun: StartRecord) -> OnDevice:
    """Describes an attempt that was granted the device."""
    aside = dict(begun.aside).get("opencl", "")
    return OnDevice(begun.key, "tracing is off" if begun.trace == "off" else aside)


class Gates(Protocol):
    """Sends shares to tracers."""

    def want(self, device: str, share: int) -> None: ...
    def told(self, key: TaskKey) -> ThrottleAnswer | None: ...


class LaunchLimit(WithoutClocks):
    """The limit of one device; called by one thread."""

    def __init__(
        self,
        device: str,
        draws_w: float,
        gates: Gates,
        *,
        jobs: Callable[[], Iterable[OnDevice]],
        power_w: Callable[[], float | None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device, self._draws_w = device, draws_w
        self._gates, self._jobs, self._power_w, self._now_s = gates, jobs, power_w, now_s
        self._limit_w = draws_w
        self._share = 1.0
        self._looked_s = now_s()
        self._under_s = now_s()

    def limits(self) -> PowerRange | Absent:
        return PowerRange(LEAST * self._draws_w, self._draws_w, self._draws_w)

    @property
    def share(self) -> float:
        """Share of the time in which launches may begin."""
        return self._share

    @property
    def said(self) -> str:
        """The present limit of the jobs in words; empty without one."""
        if self._whole:
            return ""
        told = [found for job in self._jobs() if (found := self._gates.told(job.key))]
        count, ns = sum(each.held for each in told), sum(each.held_ns for each in told)
        begin = f"launches begin in {self._share:.1%} of the time"
        return f"{begin}; {count} have waited, {ns / 1e9:.1f} s in all"

    def set_power_limit(self, watts: float) -> Absent | None:
        if not LEAST * self._draws_w - 0.5 <= watts <= self._draws_w + 0.5:
            return Absent(f"{watts:g} W: the device takes {self.limits()}")
        before, self._limit_w = self._limit_w, min(watts, self._draws_w)
        self._under_s = self._looked_s = self._now_s()
        self._tell(self._share * self._limit_w / before if self._measured else self._declared)
        return None

    @property
    def _measured(self) -> bool:
        return self._power_w() is not None

    @property
    def _whole(self) -> bool:
        return self._limit_w > self._draws_w - 0.5

    @property
    def _declared(self) -> float:
        return self._limit_w / self._draws_w

    def power_limit_w(self) -> float | Absent:
        """Adjust the share of time, and return the limit in force; Absent names a job or device
        that does not obey it."""
        if self._whole:
            return self._draws_w
        wrong = next((why for job in self._jobs() if (why := self._disobeys(job))), "")
        if wrong:
            return Absent(f"counts whole: {wrong}")
        power = self._power_w()
        if power is None:
            self._tell(self._declared)
            return self._limit_w
        return self._follow(power)

    def _disobeys(self, job: OnDevice) -> str:
        number = job.key.job
        if job.untraced:
            return f"job {number} launches without a tracer that holds: {job.untraced}"
        told = self._gates.told(job.key)
        return f"job {number}: {told.disobeys}" if told is not None and told.disobeys else ""

    def _follow(self, power_w: float) -> float | Absent:
        now = self._now_s()
        passed, self._looked_s = min(now - self._looked_s, STEP_S), now
        self._tell(self._share + GAIN * passed * (self._limit_w - power_w) / self._draws_w)
        if power_w <= self._limit_w * (1 + OVER) + OVER_W:
            self._under_s = now
        elif now - self._under_s > OVER_S:
            return Absent(f"counts whole: it draws {power_w:.0f} W although {self.said}")
        return self._limit_w

    def _tell(self, share: float) -> None:
        self._share = 1.0 if self._whole else min(max(share, LEAST_SHARE), 1.0)
        self._gates.want(self._device, max(round(self._share * HOLD_WHOLE), 1))

    def found(self) -> list[RecordedSetting] | Absent:
        """Return no setting, since the throttle ends by itself."""
        return []
