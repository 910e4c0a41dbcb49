# SPDX-License-Identifier: Apache-2.0
"""Modes and windows of one job, by the clock of the test."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.agent.tracing.tracing_plan import SETTLE_NS, TracingPlan
from stoker.mesh.wire.queries import TracingQuery
from stoker.native.errors import NotFound, Refused

S = 1_000_000_000


def ask(do: Any, **fields: Any) -> TracingQuery:
    return TracingQuery(do, 7, 1, fields.pop("by", "alice"), **fields)


def opened(now_ns: int = 0, **fields: Any) -> TracingPlan:
    steering = TracingPlan("governed")
    steering.take(ask("open", **{"window": 5, "seconds": 2.0, **fields}), now_ns)
    return steering


def test_a_window_counts_from_when_every_tracer_has_switched() -> None:
    steering = opened()
    assert steering.wanted == "full"
    assert not steering.step(S // 10, settled=False)
    assert steering.window is not None and steering.window.state == "opening"
    assert not steering.step(2 * S // 10, settled=True)
    assert (steering.window.state, steering.window.from_ns) == ("open", 2 * S // 10)
    assert not steering.step(21 * S // 10, settled=True)
    assert steering.wanted == "full"
    assert not steering.step(22 * S // 10, settled=True)  # it ends; tracers are yet to be told
    assert steering.wanted == "governed" and steering.window.state == "closing"
    assert not steering.step(23 * S // 10, settled=False)
    assert steering.step(24 * S // 10, settled=True)
    steering.written(10, 3)
    assert steering.window.view().state == "ready"
    assert (steering.window.view().records, steering.window.view().records_lost) == (10, 3)


def test_a_tracer_that_never_switches_holds_no_window_up() -> None:
    steering = opened()
    steering.step(SETTLE_NS, settled=False)
    assert steering.window is not None and steering.window.state == "open"
    end = SETTLE_NS + 2 * S
    steering.step(end, settled=False)
    assert not steering.step(end + SETTLE_NS - 1, settled=False)
    assert steering.step(end + SETTLE_NS, settled=False)


def test_a_window_that_is_closed_early_keeps_what_there_is() -> None:
    steering = opened()
    steering.step(0, settled=True)
    steering.take(ask("close", window=5), S // 2)
    steering.take(ask("close", window=5), S)  # once more changes nothing
    assert steering.window is not None and steering.window.to_ns == S // 2
    assert steering.step(S, settled=True)
    with pytest.raises(NotFound):
        steering.take(ask("close", window=6), S)


def test_closed_before_it_began_it_is_empty_and_not_reversed() -> None:
    steering = opened(S)
    steering.take(ask("close", window=5), 2 * S)
    assert steering.step(3 * S, settled=True)
    assert steering.window is not None
    assert steering.window.from_ns <= (steering.window.to_ns or 0)


def test_one_window_at_a_time_and_the_same_number_is_the_same_window() -> None:
    steering = opened()
    steering.take(ask("open", window=5, seconds=2.0), S)
    assert steering.window is not None and steering.window.from_ns == 0
    with pytest.raises(Refused, match="alice opened"):
        steering.take(ask("open", window=6, seconds=1.0, by="bob"), S)
    steering.end(S)
    assert steering.step(S, settled=True)
    steering.written(0, 0)
    steering.take(ask("open", window=6, seconds=1.0, by="bob"), 2 * S)
    assert steering.window.number == 6


def test_a_mode_that_is_set_within_a_window_holds_after_it() -> None:
    steering = opened()
    steering.take(ask("mode", mode="dormant"), 0)
    assert steering.wanted == "full"
    steering.end(S)
    assert steering.wanted == "dormant"


def test_what_the_governor_holds_down_is_full_in_a_window_and_as_set_when_not_governed() -> None:
    steering = TracingPlan("governed")
    steering.held = "dormant"
    assert steering.wanted == "dormant"
    steering.take(ask("open", window=1, seconds=1.0), 0)
    assert steering.wanted == "full"
    steering.end(1)
    steering.take(ask("mode", mode="full"), 0)
    assert steering.wanted == "full"
