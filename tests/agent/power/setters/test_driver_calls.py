# SPDX-License-Identifier: Apache-2.0
"""Drivers asked by a deadline: one that hangs costs it once, and is asked again when it returns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from stoker.agent.devices.readings import Absent
from stoker.agent.power.setters import driver_calls as module
from stoker.agent.power.setters.driver_calls import DriverCalls


def test_one_that_hangs_is_not_asked_again_before_it_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.05)
    go, began = threading.Event(), []

    def hung() -> int:
        began.append(True)
        go.wait(10)
        return 1

    asking = DriverCalls()
    calls: dict[str, Callable[[], int]] = {"a": hung, "b": lambda: 2}
    for _ in range(3):
        found = asking.each(calls)
        assert list(found) == ["a", "b"] and found["b"] == 2
        assert isinstance(found["a"], Absent) and "has not answered" in found["a"].why
        assert asking.hangs("a") and not asking.hangs("b")
    assert len(began) == 1
    go.set()
    asking._late["a"].over.wait(10)
    assert not asking.hangs("a")
    assert asking.each(calls) == {"a": 1, "b": 2}


def test_what_a_call_raises_is_raised() -> None:
    def broken() -> Any:
        raise ValueError("no such symbol")

    with pytest.raises(ValueError, match="no such symbol"):
        DriverCalls().each({"a": broken})
