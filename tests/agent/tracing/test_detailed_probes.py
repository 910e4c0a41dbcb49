# SPDX-License-Identifier: Apache-2.0
"""Opt-in probes of one job: one call per change, and absences are reported if they matter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from stoker.agent.tracing.detailed_probes import DetailedProbes
from stoker.native.errors import Refused
from stoker.probes.catalogue import ProbeState, State
from stoker.probes.host.host_probes import HostProbes
from stoker.probes.host.host_records import StateDurations

SECOND = 1_000_000_000


class Kernel:
    """Returns scripted answers and records the calls."""

    def __init__(self, state: State = "attached", refusal: str = "") -> None:
        self.states = [
            ProbeState("host.memory.handling", state, "" if state == "attached" else "no")
        ]
        self.calls: list[tuple[bool, bool]] = []
        self._refusal = refusal

    def opt_in(self, job: int, *, stacks: bool, faults: bool) -> None:
        self.calls.append((stacks, faults))
        if self._refusal:
            raise Refused(self._refusal)


def look_at(kernel: Any) -> DetailedProbes:
    return DetailedProbes(cast(HostProbes, kernel), 7)


def times(**counts: int) -> StateDurations:
    zero = dict.fromkeys(("minor_faults", "major_faults", "user_faults", "kernel_faults"), 0)
    return cast(StateDurations, SimpleNamespace(**{**zero, **counts}))


def test_the_kernel_is_called_when_something_changes() -> None:
    kernel = Kernel()
    look = look_at(kernel)
    for faults in (False, True, True, False, False):
        look.want(stacks=False, faults=faults)
    assert kernel.calls == [(False, True), (False, False)]
    assert look.absent(SECOND) == {}


def test_without_probes_nothing_is_called() -> None:
    look = DetailedProbes(None, 0)
    look.want(stacks=True, faults=True)
    assert look.absent(SECOND) == {}


def test_faults_that_were_not_timed_are_reported_if_they_are_many() -> None:
    look = look_at(Kernel())
    look.read(times(minor_faults=50_000, user_faults=1_000, kernel_faults=500))
    assert look.absent(100 * SECOND) == {}
    said = look.absent(SECOND)["page faults"]
    assert said.startswith("48500 were not timed and count as host on CPU: ")
    look.read(times(minor_faults=50_000, user_faults=50_000))
    assert look.absent(SECOND) == {}


def test_what_the_kernel_refuses_is_the_reason() -> None:
    look = look_at(Kernel("refused"))
    look.want(stacks=False, faults=True)
    look.read(times(major_faults=100_000))
    assert look.absent(SECOND)["page faults"].endswith(": host.memory.handling: no")
    look = look_at(Kernel(refusal="too many jobs ask"))
    look.want(stacks=True, faults=True)
    assert look.absent(SECOND) == {"waits": "too many jobs ask"}
    look.read(times(minor_faults=100_000))
    assert look.absent(SECOND)["page faults"].endswith(": too many jobs ask")
