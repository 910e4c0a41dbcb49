# SPDX-License-Identifier: Apache-2.0
"""The thread of the probes over calls: it goes on whatever happens, and leaves nothing attached."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.probes.calls import look_thread
from stoker.probes.calls.call_probes import CallProbes
from stoker.probes.calls.call_records import CallLimits
from stoker.probes.calls.call_watch import CallWatch
from stoker.probes.calls.trap_cost import ELSEWHERE
from tests.probes.gpu_jobs import DEARLY, Caller, compile_caller, compile_library
from tests.probes.groups import eventually, require_root

JOB = 7
NEVER = 1 << 62
"""A time on CLOCK_MONOTONIC (ns) that does not come."""


def make() -> CallProbes:
    probes = CallProbes(ELSEWHERE, CallLimits(budget_ppm=DEARLY))
    probes.load()
    return probes


@pytest.mark.needs_bpf
def test_it_attaches_what_appears_and_detaches_at_its_end(tmp_path: Path) -> None:
    require_root()
    library = compile_library(tmp_path / "libcuda.so.1")
    caller = Caller(compile_caller(tmp_path / "caller"))

    def before(probes: CallProbes) -> int:
        probes.want({JOB: [caller.pid]})
        return NEVER

    watch = CallWatch(make, before)
    watch.start()
    try:
        eventually(lambda: watch.probes is not None)
        probes = watch.probes
        assert probes is not None
        caller.tell("open", library)  # later than the first look
        eventually(lambda: any(state.processes for state in probes.states()))
        caller.tell("call", "cuLaunchKernel", 83)
        assert probes.read(JOB)["cuda.cuLaunchKernel"].returned == 83
        assert watch.failures == 0
    finally:
        watch.close()
    assert probes.probe.reason == "closed"
    caller.tell("call", "cuLaunchKernel", 83)
    caller.end()


def test_programs_that_cannot_be_made_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_thread, "AFTER_FAILURE_S", 0.001)
    tries = []

    def fail() -> CallProbes:
        tries.append(1)
        if len(tries) < 3:
            raise MemoryError
        return CallProbes(ELSEWHERE)

    watch = CallWatch(fail, lambda _: NEVER)
    watch.start()
    eventually(lambda: watch.probes is not None)
    watch.close()
    assert watch.failures == 2
