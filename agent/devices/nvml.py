# SPDX-License-Identifier: Apache-2.0
"""NVML as the nvidia-ml-py binding gives it: calls that never raise, and field values in batches.

Relied on by the NVIDIA vendor class and its cards. A batch goes around the binding's wrapper with
the binding's own library handle and structure: filling 60 structures anew each time costs 130 us, a
buffer that is used again 11 us. Every symbol is looked up when it is called, so a driver that lacks
one costs that field alone. Numbers are nvml.h's.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Sequence
from typing import Any

from stoker.agent.devices.card import Calls, key_of
from stoker.agent.devices.readings import Absent, Trouble

NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION = 3, 13, 25
TROUBLES: dict[int, Trouble] = {
    1: "missing",  # uninitialized: the driver was loaded again
    4: "refused",
    9: "missing",  # driver not loaded
    12: "missing",  # library not found
    15: "lost",
    16: "lost",  # reset required
    18: "mismatch",
    28: "lost",  # GPU not found
}
"""nvmlReturn_t -> what it says of the card."""
SIM_SYMBOL = "stoker_sim_driver"
"""Exported by the simulated driver libraries and by no other."""
_FIELD_BYTES = 40
"""nvmlFieldValue_t: id, scope, timestamp (us), latency, value type, return code, value."""
_WORDS, _STAMP, _KIND, _RAW = 5, 1, 3, 4
"""The same as words of 64 bits: how many, and where stamp, type with return code, and value lie."""
_PLAIN = (2, 3)
"""Type and code as one word: a whole number of 64 bits, and no error."""
_STAMP_NEAR_NS = 3_600_000_000_000

Wanted = tuple[int, int]
"""(field, scope)."""


def ask(nvml: Any, name: str, *arguments: Any, calls: Calls | None = None) -> Any:
    """Call one NVML function; an Absent where the binding or the driver does not have it."""
    function = getattr(nvml, name, None)
    if function is None:
        return Absent(f"this pynvml has no {name}")
    if calls is None:
        try:
            return function(*arguments)
        except nvml.NVMLError as error:
            return absent(name, error)
    replay = calls.replay
    if replay is not None:  # a plan says an absence itself
        return replay(name, arguments)
    return calls.refused(key_of(name, arguments)) or _made(nvml, name, function, arguments, calls)


def _made(nvml: Any, name: str, function: Any, arguments: tuple[Any, ...], calls: Calls) -> Any:
    """A call that was not refused before, or not lately."""
    try:
        return calls.make(name, function, *arguments)
    except nvml.NVMLError as error:
        found = absent(name, error)
        code = getattr(error, "value", None)
        if code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
            key = key_of(name, arguments)
            calls.remember(key, found, for_ever=code == FUNCTION_NOT_FOUND)
        return found


def first(nvml: Any, calls: Calls | None, names: Sequence[str], *arguments: Any) -> Any:
    """The first of several functions that there is: newest first, for drivers that are older."""
    found: Any = Absent("nothing was asked")
    for name in names:
        found = ask(nvml, name, *arguments, calls=calls)
        if not isinstance(found, Absent) or found.trouble:
            return found
    return found


def absent(name: str, error: Any) -> Absent:
    """An error of the binding as an absence with NVML's own words."""
    return Absent(f"{name}: {error}", TROUBLES.get(getattr(error, "value", -1), ""))


class Refusals:
    """What codes mean as absences, each made once: a plan's calls are refused again and again."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._made: dict[tuple[str, int], Absent] = {}

    def of(self, name: str, code: int) -> Absent:
        """As `absent` has it."""
        found = self._made.get((name, code))
        if found is None:
            found = self._made[name, code] = absent(name, self._nvml.NVMLError(code))
        return found


def text(value: str | bytes) -> str:
    """Older bindings return bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def same_handle(one: Any, other: Any) -> bool:
    """Whether two handles are of one device: pointers of the binding's differ as objects."""
    pointers = [
        ctypes.cast(each, ctypes.c_void_p).value if isinstance(each, ctypes._Pointer) else each
        for each in (one, other)
    ]
    return bool(pointers[0] == pointers[1])


def is_sim(nvml: Any) -> bool:
    """Whether the library that the binding has loaded is a simulated one."""
    return hasattr(getattr(nvml, "nvmlLib", None), SIM_SYMBOL)


def impostor(nvml: Any) -> str:
    """Why the module `pynvml` is another package's than nvidia-ml-py's, or an empty string.

    Several packages install a module of this name and shadow one another; the old ones lack what
    is needed and misread structures of newer drivers.
    """
    lacks = [name for name in ("NVMLError", "nvmlDeviceGetFieldValues") if not hasattr(nvml, name)]
    if not lacks and not hasattr(nvml, "__path__"):
        return ""
    where = getattr(nvml, "__file__", None) or "a module"
    why = f"it has no {lacks[0]}" if lacks else "it is a package"
    return (
        f"the module pynvml ({where}) is not nvidia-ml-py's: {why}; "
        "pip uninstall pynvml nvidia-ml-py3, then pip install --force-reinstall nvidia-ml-py"
    )


class Batch:
    """Several field values of one card in one call, into memory that is used again."""

    def __init__(self, nvml: Any, handle: Any, wanted: Sequence[Wanted]) -> None:
        self._nvml = nvml
        self._handle = handle
        self._wanted = tuple(wanted)
        self._whys: dict[tuple[int, int], Absent] = {}
        kind = getattr(nvml, "c_nvmlFieldValue_t", None)
        self.memory: Any = None
        """The array that is filled; None where the binding has no such structure."""
        if kind is not None and ctypes.sizeof(kind) == _FIELD_BYTES:
            self.memory = (kind * len(self._wanted))()
            for value, (number, scope) in zip(self.memory, self._wanted, strict=True):
                value.fieldId, value.scopeId = number, scope
            self._words = memoryview(self.memory).cast("B").cast("Q")

    def read(self, calls: Calls) -> dict[Wanted, tuple[float, int] | Absent]:
        """(field, scope) -> (value, CLOCK_REALTIME ns), or an absence."""
        if self.memory is None:
            return dict.fromkeys(
                self._wanted, Absent("this pynvml has no nvmlDeviceGetFieldValues")
            )
        failed = self._fill(calls)
        return dict.fromkeys(self._wanted, failed) if failed is not None else self._decoded()

    def _fill(self, calls: Calls) -> Absent | None:
        """Make the call; why it failed, or None."""
        name = "nvmlDeviceGetFieldValues"
        before = calls.refused(name)
        if before is not None:
            return before
        try:
            arguments = (self._handle, len(self._wanted), self.memory)
            if calls.replay is not None:
                code = calls.replay(name, arguments)
            else:
                code = calls.make(name, self._nvml._nvmlGetFunctionPointer(name), *arguments)
            if code:
                raise self._nvml.NVMLError(code)
        except self._nvml.NVMLError as error:
            found = absent(name, error)
            if getattr(error, "value", None) == FUNCTION_NOT_FOUND:
                calls.remember(name, found, for_ever=True)
            return found
        return None

    def numbers(self, calls: Calls) -> list[float | None] | Absent:
        """The values alone, in the order they were asked for; quicker where there are many."""
        if self.memory is None:
            return Absent("this pynvml has no nvmlDeviceGetFieldValues")
        failed = self._fill(calls)
        if failed is not None:
            return failed
        words = self._words.tolist()
        return [
            raw if kind in _PLAIN else None if kind >> 32 else _number(kind, raw)
            for kind, raw in zip(words[_KIND::_WORDS], words[_RAW::_WORDS], strict=True)
        ]

    def _decoded(self) -> dict[Wanted, tuple[float, int] | Absent]:
        now = time.time_ns()
        words = self._words.tolist()
        found: dict[Wanted, tuple[float, int] | Absent] = {}
        rows = zip(
            self._wanted,
            words[_STAMP::_WORDS],
            words[_KIND::_WORDS],
            words[_RAW::_WORDS],
            strict=True,
        )
        for wanted, stamp, kind, raw in rows:
            if kind >> 32:
                why = self._whys.get((wanted[0], kind >> 32))
                found[wanted] = why or self._why(wanted[0], kind >> 32)
                continue
            t_ns = stamp * 1000
            if not -_STAMP_NEAR_NS < t_ns - now < _STAMP_NEAR_NS:
                t_ns = now  # a driver that stamps nothing, or otherwise
            found[wanted] = (raw if kind in _PLAIN else _number(kind, raw), t_ns)
        return found

    def _why(self, field: int, code: int) -> Absent:
        error = self._nvml.NVMLError(code)
        made = Absent(f"NVML field {field}: {error}", TROUBLES.get(code, ""))
        self._whys[field, code] = made
        return made


def _number(kind: int, raw: int) -> float:
    """A value by nvmlValueType_t: the union's bytes, of which the type uses some."""
    match kind:
        case 0:
            return float(struct.unpack("=d", raw.to_bytes(8, "little"))[0])
        case 1:
            return raw & 0xFFFFFFFF
        case 4:
            return raw - (1 << 64) if raw >> 63 else raw
        case 5:
            low = raw & 0xFFFFFFFF
            return low - (1 << 32) if low >> 31 else low
        case 6:
            return raw & 0xFFFF
        case _:
            return raw
