# SPDX-License-Identifier: Apache-2.0
"""A count of instructions, or the reason why there is none."""

from __future__ import annotations

import shutil

import pytest

from stoker.scheduler import bench_decide as bench
from stoker.scheduler.sim.openb import Machine, TraceTask
from stoker.tui.bench import callgrind


def tiny() -> bench.DecideLoad:
    return bench.DecideLoad(
        [Machine("n", 32_000, 1 << 36, 4, "A")], [TraceTask(100, 1 << 20, 1, 1000)], 75.0
    )


def test_instructions_are_absent_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    assert callgrind.count(tiny()) == (
        None, "not installed: valgrind, cmake, ninja", "",
    )  # fmt: skip


def test_a_tool_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callgrind, "MARCH", "no-such-machine")
    counted = callgrind.count(tiny())
    assert counted.per_decision is None
    assert "failed" in counted.reason or "not installed" in counted.reason


@pytest.mark.soak
@pytest.mark.slow
def test_instructions_are_counted() -> None:
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    counted = callgrind.count(tiny())
    assert counted.reason == ""
    assert counted.per_decision is not None
    assert 1_000 < counted.per_decision < 1_000_000
