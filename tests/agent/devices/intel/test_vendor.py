# SPDX-License-Identifier: Apache-2.0
"""Calls that Sysman does not support, and numbers of GPUs if there are several drivers."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.devices.card import Calls
from stoker.agent.devices.intel import zes
from stoker.agent.devices.intel.card import IntelCard
from stoker.agent.devices.intel.vendor import Intel
from stoker.agent.devices.vendor import Scan
from stoker.scheduler.nouns import DeviceInfo


class Refusing:
    """A Sysman that does not support the state of the second sensor."""

    ZE_RESULT_ERROR_UNSUPPORTED_FEATURE = zes.UNSUPPORTED

    def __init__(self) -> None:
        self.asked: list[int] = []

    def zesTemperatureGetState(self, handle: Any, ret: Any) -> int:
        self.asked.append(handle.value)
        return zes.UNSUPPORTED if handle.value == 2 else 0


def test_what_sysman_does_not_support_is_not_asked_again_and_nothing_else_is_left_out() -> None:
    sysman, calls, value = Refusing(), Calls(), ctypes.c_double()
    for _ in range(3):
        for number in (1, 2):
            handle = ctypes.c_void_p(number)
            said = zes.call(
                sysman, "zesTemperatureGetState", handle, ctypes.byref(value), calls=calls
            )
            assert (said is None) == (number == 1)
    assert sysman.asked == [1, 2, 1, 1]
    assert said is not None and "UNSUPPORTED_FEATURE" in said.why


def test_gpus_are_numbered_within_their_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second driver's first device is no GPU."""
    intel = Intel({}, object())
    handles = [(0, "a"), (0, "b"), (1, "npu"), (1, "c"), (1, "d")]
    monkeypatch.setattr(intel, "_load", lambda: "")
    monkeypatch.setattr(intel, "_handles", lambda: handles)

    def device(name: str) -> Any:
        if name == "npu":
            return None
        return DeviceInfo(id=name, vendor="intel", model=""), IntelCard(
            object(), 0, name, "", Path("/"), sim=True
        )

    monkeypatch.setattr(intel, "_device", device)
    monkeypatch.setattr(intel, "_near", lambda found, missing: Scan(tuple(i for i, _ in found)))
    masks = [each.visible["ZE_AFFINITY_MASK"] for each in intel.scan().devices]
    assert masks == ["0", "1", "0", "1"]
