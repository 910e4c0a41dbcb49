# SPDX-License-Identifier: Apache-2.0
"""Modes and windows of one job, by the clock of the test."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.agent.tracing.tracing_plan import SETTLE_NS, TracingPlan
from stoker.mesh.wire.queries import TracingQuery
from stoker.native.errors import NotFound, Refused

S = 1_000_000_000


def query(do: Any, **fields: Any) -> TracingQuery:
    return TracingQuery(7, 1, 0, 0, do, fields.pop("by", "alice"), **fields)


def opened(now_ns: int = 0, **fields: Any) -> TracingPlan:
    plan = TracingPlan("governed")
    plan.take(query("open", **{"window": 5, "seconds": 2.0, **fields}), now_ns)
    return plan


def test_a_window_counts_from_when_every_tracer_has_switched() -> None:
    plan = opened()
    assert plan.wanted == "full"
    assert not plan.step(S // 10, settled=False)
    assert plan.window is not None and plan.window.state == "opening"
    assert not plan.step(2 * S // 10, settled=True)
    assert (plan.window.state, plan.window.from_ns) == ("open", 2 * S // 10)
    assert not plan.step(21 * S // 10, settled=True)
    assert plan.wanted == "full"
    assert not plan.step(22 * S // 10, settled=True)  # it ends; tracers are yet to be told
    assert plan.wanted == "governed" and plan.window.state == "closing"
    assert not plan.step(23 * S // 10, settled=False)
    assert plan.step(24 * S // 10, settled=True)
    plan.written(10, 3)
    assert plan.window.view().state == "ready"
    assert (plan.window.view().records, plan.window.view().records_lost) == (10, 3)


def test_a_tracer_that_never_switches_holds_no_window_up() -> None:
    plan = opened()
    plan.step(SETTLE_NS, settled=False)
    assert plan.window is not None and plan.window.state == "open"
    end = SETTLE_NS + 2 * S
    plan.step(end, settled=False)
    assert not plan.step(end + SETTLE_NS - 1, settled=False)
    assert plan.step(end + SETTLE_NS, settled=False)


def test_a_window_that_is_closed_early_keeps_what_there_is() -> None:
    plan = opened()
    plan.step(0, settled=True)
    plan.take(query("close", window=5), S // 2)
    plan.take(query("close", window=5), S)  # repeating it changes nothing
    assert plan.window is not None and plan.window.to_ns == S // 2
    assert plan.step(S, settled=True)
    with pytest.raises(NotFound):
        plan.take(query("close", window=6), S)


def test_closed_before_it_began_it_is_empty_and_not_reversed() -> None:
    plan = opened(S)
    plan.take(query("close", window=5), 2 * S)
    assert plan.step(3 * S, settled=True)
    assert plan.window is not None
    assert plan.window.from_ns <= (plan.window.to_ns or 0)


def test_one_window_at_a_time_and_the_same_number_is_the_same_window() -> None:
    plan = opened()
    plan.take(query("open", window=5, seconds=2.0), S)
    assert plan.window is not None and plan.window.from_ns == 0
    with pytest.raises(Refused, match="alice opened"):
        plan.take(query("open", window=6, seconds=1.0, by="bob"), S)
    plan.end(S)
    assert plan.step(S, settled=True)
    plan.written(0, 0)
    plan.take(query("open", window=6, seconds=1.0, by="bob"), 2 * S)
    assert plan.window.number == 6


def test_a_mode_that_is_set_within_a_window_holds_after_it() -> None:
    plan = opened()
    plan.take(query("mode", mode="dormant"), 0)
    assert plan.wanted == "full"
    plan.end(S)
    assert plan.wanted == "dormant"


def test_what_the_governor_holds_down_is_full_in_a_window_and_as_set_when_not_governed() -> None:
    plan = TracingPlan("governed")
    plan.held = "dormant"
    assert plan.wanted == "dormant"
    plan.take(query("open", window=1, seconds=1.0), 0)
    assert plan.wanted == "full"
    plan.end(1)
    plan.take(query("mode", mode="full"), 0)
    assert plan.wanted == "full"
