# SPDX-License-Identifier: Apache-2.0
"""Error counters of an Intel card, from a Sysman that lists them by tile and category;
calls that it does not support; numbers of GPUs where several drivers have some."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.devices import zes
from stoker.agent.devices.card import Calls
from stoker.agent.devices.intel import Intel
from stoker.agent.devices.intel_card import IntelCard
from stoker.agent.devices.intel_parts import Errors
from stoker.agent.devices.readings import Reading
from stoker.agent.devices.vendor import Scan
from stoker.scheduler.nouns import DeviceInfo

CORRECTABLE, UNCORRECTABLE = 0, 1
SETS = {
    1: (CORRECTABLE, (0, 0, 0, 1, 2, 4, 0)),
    2: (UNCORRECTABLE, (9, 70, 80, 10, 20, 40, 90)),
    3: (CORRECTABLE, (0, 0, 0, 8, 0, 0, 0)),
    4: (UNCORRECTABLE, (9, 70, 80, 100, 0, 0, 90)),
}
"""Handle -> type and counters by zes_ras_error_cat_t, of two tiles."""


class Sysman:
    """The few functions of the binding that are called."""

    class zes_device_ecc_properties_t(ctypes.Structure):
        _fields_ = (("stype", ctypes.c_int32), ("currentState", ctypes.c_int32))

    @staticmethod
    def zesDeviceGetEccState(handle: Any, ret: Any) -> int:
        return 0

    @staticmethod
    def zesDeviceEnumRasErrorSets(handle: Any, count: Any, ret: Any) -> int:
        count._obj.value = len(SETS)
        for place, number in enumerate(SETS if ret is not None else ()):
            ret[place] = number
        return 0

    @staticmethod
    def zesRasGetProperties(handle: Any, ret: Any) -> int:
        ret._obj.type = SETS[handle.value][0]
        return 0

    @staticmethod
    def zesRasGetState(handle: Any, clear: Any, ret: Any) -> int:
        assert not clear.value
        ret._obj.category = zes.RasState().category.__class__(*SETS[handle.value][1])
        return 0


def test_errors_of_all_tiles_are_counted_and_what_programs_do_wrong_is_not() -> None:
    found = Errors(Sysman(), 0).read(Calls())
    for name, value in (("ecc_corrected", 1 + 2 + 4 + 8), ("ecc_uncorrected", 10 + 20 + 40 + 100)):
        counted = found[name]
        assert isinstance(counted, Reading)
        assert counted.value == value


class Refusing:
    """A Sysman whose second sensor has no state to tell."""

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
            said = zes.ask(
                sysman, "zesTemperatureGetState", handle, ctypes.byref(value), calls=calls
            )
            assert (said is None) == (number == 1)
    assert sysman.asked == [1, 2, 1, 1]
    assert said is not None and "UNSUPPORTED_FEATURE" in said.why


def test_gpus_are_numbered_within_their_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second driver's first device is no GPU."""
    intel = Intel({}, Sysman())
    handles = [(0, "a"), (0, "b"), (1, "npu"), (1, "c"), (1, "d")]
    monkeypatch.setattr(intel, "_load", lambda: "")
    monkeypatch.setattr(intel, "_handles", lambda: handles)

    def device(name: str) -> Any:
        if name == "npu":
            return None
        return DeviceInfo(id=name, vendor="intel", model=""), IntelCard(
            Sysman(), 0, name, "", Path("/"), sim=True
        )

    monkeypatch.setattr(intel, "_device", device)
    monkeypatch.setattr(intel, "_near", lambda found, missing: Scan(tuple(i for i, _ in found)))
    masks = [each.visible["ZE_AFFINITY_MASK"] for each in intel.scan().devices]
    assert masks == ["0", "1", "0", "1"]
