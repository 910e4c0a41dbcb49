# SPDX-License-Identifier: Apache-2.0
"""The lease file in memory, and the decision of the watchdog about it.

`decide` is `sk_runner_lease_decide` of `native/runner/watchdog/lease.c` without the kill; a test
compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LOOK_NS = 100_000_000


@dataclass
class LeaseModel:
    """The fields of a lease file, in ns of CLOCK_BOOTTIME; 0 is none."""

    expiry_ns: int = 0
    thaw_epoch: int = 0
    freeze_epoch: int = 0
    frozen_since_ns: int = 0

    @property
    def frozen(self) -> bool:
        """True while the jobs are frozen."""
        return self.frozen_since_ns != 0

    def extend(self, expiry_ns: int) -> None:
        """Renew, unless the expiry would be earlier."""
        self.expiry_ns = max(self.expiry_ns, expiry_ns)

    def thaw(self) -> None:
        """Let the jobs of the present freeze go on while the lease is valid."""
        self.thaw_epoch = self.freeze_epoch

    def freeze_now(self, now_ns: int) -> None:
        """Record a freeze, as the watchdog does before it freezes."""
        self.freeze_epoch += 1
        self.frozen_since_ns = now_ns


def decide(lease: LeaseModel, now_ns: int) -> Literal["nothing", "freeze", "thaw"]:
    """Return what the watchdog does at `now_ns`."""
    expiry = lease.expiry_ns
    if not lease.frozen_since_ns:
        return "freeze" if expiry and now_ns >= expiry else "nothing"
    if expiry and now_ns < expiry and lease.thaw_epoch >= lease.freeze_epoch:
        return "thaw"
    return "nothing"
