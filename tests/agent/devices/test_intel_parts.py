# SPDX-License-Identifier: Apache-2.0
"""Error counters of an Intel card, from a Sysman that lists them by tile and category."""

from __future__ import annotations

import ctypes
from typing import Any

from stoker.agent.devices import zes
from stoker.agent.devices.card import Calls
from stoker.agent.devices.intel_parts import Errors
from stoker.agent.devices.readings import Reading

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
