# SPDX-License-Identifier: Apache-2.0
"""A writer carries wishes out whatever its driver does, and says when all is given back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stoker.agent.devices.readings import Absent
from stoker.agent.power.plan.card import ClockRange
from stoker.agent.power.setters import card_writer as writers
from stoker.agent.power.setters.card_writer import CardWriter

FOUND_W = 350.0


class Driver:
    """An setter that does what it is told, but for the calls that `fails` names."""

    def __init__(self) -> None:
        self.limit_w, self.clocks = FOUND_W, ""
        self.fails: dict[str, Any] = {}

    def _call(self, name: str) -> Absent | None:
        problem = self.fails.get(name)
        if isinstance(problem, Exception):
            raise problem
        return problem if isinstance(problem, Absent) else None

    def power_limit_w(self) -> float | Absent:
        return self._call("read") or self.limit_w

    def set_power_limit(self, watts: float) -> Absent | None:
        problem = self._call("limit")
        self.limit_w = self.limit_w if problem else watts
        return problem

    def set_clock_range(self, low_mhz: float, high_mhz: float) -> Absent | None:
        problem = self._call("clock")
        self.clocks = self.clocks if problem else f"{low_mhz:g}-{high_mhz:g}"
        return problem

    def reset_clocks(self) -> Absent | None:
        problem = self._call("reset")
        self.clocks = self.clocks if problem else ""
        return problem


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    monkeypatch.setattr(writers, "TICK_S", 0.005)
    monkeypatch.setattr(writers, "AGAIN_S", 0.01)
    return Driver()


@pytest.fixture
def writer(driver: Driver) -> Iterator[CardWriter]:
    made = CardWriter("GPU-1", driver, ClockRange(300, 1500, 15))  # type: ignore[arg-type]
    made.start(FOUND_W)
    yield made
    driver.fails = {}
    made.give_back()
    made._thread.join(60)
    assert not made._thread.is_alive()


def soon(true: Callable[[], bool]) -> bool:
    """True if it becomes so within 60 s."""
    for _ in range(6000):
        if true():
            return True
        time.sleep(0.01)
    return False


def test_a_limit_that_is_refused_does_not_take_the_clock_with_it(
    driver: Driver, writer: CardWriter
) -> None:
    driver.fails["limit"] = Absent("no")
    writer.want_clock(900)
    writer.want_limit(200)
    assert soon(lambda: driver.clocks == "300-900" and writer.refused == "no")
    assert driver.limit_w == FOUND_W


def test_a_clock_that_was_not_taken_is_tried_again(driver: Driver, writer: CardWriter) -> None:
    driver.fails["clock"] = Absent("busy")
    writer.want_clock(900)
    assert soon(lambda: writer.refused == "busy")
    assert driver.clocks == ""
    del driver.fails["clock"]
    assert soon(lambda: driver.clocks == "300-900" and writer.refused == "")


def test_what_a_binding_raises_is_said_and_ends_nothing(driver: Driver, writer: CardWriter) -> None:
    driver.fails["read"] = UnicodeDecodeError("utf-8", b"", 0, 1, "odd")
    assert soon(lambda: "UnicodeDecodeError" in writer.refused)
    del driver.fails["read"]
    writer.want_limit(200)
    assert soon(lambda: writer.back is not None and writer.back.limit_w == 200)
    assert driver.limit_w == 200 and writer.refused == ""


def test_all_is_given_back_only_when_clocks_are_free_again(
    driver: Driver, writer: CardWriter
) -> None:
    writer.want_limit(200)
    writer.want_clock(900)
    assert soon(lambda: driver.clocks == "300-900" and driver.limit_w == 200)
    driver.fails["reset"] = Absent("busy")
    writer.give_back()
    writer._thread.join(60)
    assert driver.limit_w == FOUND_W
    assert not writer.given_back.is_set()


def test_clocks_that_were_never_held_need_no_giving_back(
    driver: Driver, writer: CardWriter
) -> None:
    writer.want_limit(200)
    assert soon(lambda: driver.limit_w == 200)
    driver.fails["reset"] = Absent("not supported")
    writer.give_back()
    assert writer.given_back.wait(60)
    assert driver.limit_w == FOUND_W
