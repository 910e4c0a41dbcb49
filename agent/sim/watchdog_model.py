# SPDX-License-Identifier: Apache-2.0
"""The lease file in memory, and the decision of the watchdog about it.

`decide` is `sk_runner_lease_decide` of `native/runner/watchdog/lease.c` without the kill; a test
compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stoker.agent.jobs.lease_judge import Freeze
from stoker.mesh.sim.host_clock import DRIFT_PPM_MAX

LOOK_NS = 100_000_000
MOST_NS = 5_000_000_000
"""The longest lease; an expiry further ahead counts as none."""
LOOK_MOST_NS = LOOK_NS + LOOK_NS * DRIFT_PPM_MAX // 1_000_000
"""The time between two looks by the fastest clock."""


@dataclass
class LeaseModel:
    """The fields of a lease file, in ns of CLOCK_BOOTTIME; 0 is none."""

    expiry_ns: int = 0
    thaw_epoch: int = 0
    thaw_until_ns: int = 0
    freeze_epoch: int = 0
    frozen_since_ns: int = 0

    @property
    def frozen(self) -> bool:
        """True while the jobs are frozen."""
        return self.frozen_since_ns != 0

    def extend(self, expiry_ns: int) -> None:
        """Renew, unless the expiry would be earlier."""
        self.expiry_ns = max(self.expiry_ns, expiry_ns)

    def valid(self, now_ns: int) -> bool:
        """Return True if jobs may run."""
        return 0 < self.expiry_ns - now_ns <= MOST_NS

    def freeze(self) -> Freeze | None:
        """Return the present freeze; None while jobs run."""
        return Freeze(self.freeze_epoch, self.frozen_since_ns) if self.frozen else None

    def thaw(self, epoch: int, until_ns: int) -> None:
        """Let the jobs of this freeze go on before `until_ns`, the end of the present lease."""
        self.thaw_epoch, self.thaw_until_ns = epoch, until_ns

    def freeze_now(self, now_ns: int) -> None:
        """Record a freeze, as the watchdog does before it freezes."""
        self.freeze_epoch += 1
        self.frozen_since_ns = now_ns


def decide(lease: LeaseModel, now_ns: int) -> Literal["nothing", "freeze", "thaw"]:
    """Return what the watchdog does at `now_ns`."""
    valid = lease.valid(now_ns)
    if not lease.frozen:
        return "nothing" if valid else "freeze"
    thawed = lease.thaw_epoch >= lease.freeze_epoch and now_ns < lease.thaw_until_ns
    return "thaw" if valid and thawed else "nothing"


def looks_until_expiry(lease: LeaseModel, now_ns: int) -> int:
    """Return how many looks from now the first one is that may find something to do.

    While jobs run under a valid lease, which nothing shortens, the looks before its end do nothing.
    """
    if lease.frozen or not lease.valid(now_ns):
        return 1
    return -((now_ns - lease.expiry_ns) // LOOK_MOST_NS)
