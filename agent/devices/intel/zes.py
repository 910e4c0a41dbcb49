# SPDX-License-Identifier: Apache-2.0
"""Calls into Level Zero Sysman through the pyzes binding, and structures that the binding lacks.

Invariant: a call never raises. Functions of fabric ports, which the binding lacks, are called
through its library handle. Numbers and layouts are those of zes_api.h.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from ctypes import c_char, c_int32, c_int64, c_uint8, c_uint32, c_void_p
from typing import Any

from stoker.agent.devices.card import SIM_SYMBOL, Calls
from stoker.agent.devices.readings import Absent, Trouble

TROUBLES: dict[int, Trouble] = {
    0x70000001: "lost",
    0x70000006: "lost",  # requires reset
    0x70010000: "refused",
    0x70020000: "missing",  # dependency unavailable
    0x78000001: "missing",  # uninitialized
    0x78000002: "mismatch",  # unsupported version
}
UNSUPPORTED = 0x78000003
"""ZE_RESULT_ERROR_UNSUPPORTED_FEATURE: the call is not supported on this handle."""
HANDLES_MAX = 64


class PortId(ctypes.Structure):
    _fields_ = (("fabric", c_uint32), ("attach", c_uint32), ("port", c_uint8))


class PortSpeed(ctypes.Structure):
    _fields_ = (("bits", c_int64), ("lanes", c_int32))


class PortProperties(ctypes.Structure):
    STYPE = 0x6
    _fields_ = (
        ("stype", c_int32),
        ("pNext", c_void_p),
        ("model", c_char * 256),
        ("on_subdevice", c_uint8),
        ("subdevice", c_uint32),
        ("id", PortId),
        ("max_rx", PortSpeed),
        ("max_tx", PortSpeed),
    )


class PortState(ctypes.Structure):
    STYPE = 0x19
    _fields_ = (
        ("stype", c_int32),
        ("pNext", c_void_p),
        ("status", c_int32),
        ("quality", c_uint32),
        ("failure", c_uint32),
        ("remote", PortId),
        ("rx", PortSpeed),
        ("tx", PortSpeed),
    )


def load() -> Any | str:
    """The binding with its loader, or the reason why it cannot be used."""
    try:
        return importlib.import_module("pyzes")
    except ImportError:
        return "the pyzes package is not installed (pip install 'stoker[intel]')"
    except Exception as error:  # without a loader at its path it raises OSError or worse
        return f"pyzes cannot be used: {error}"


def is_sim(zes: Any) -> bool:
    """True if the binding's loader or its driver is simulated."""
    return hasattr(getattr(zes, "gpuLib", None), SIM_SYMBOL)


def _function(zes: Any, name: str) -> Callable[..., int] | Absent:
    """The binding's own function, or the library's where the binding has none."""
    function = getattr(zes, name, None)
    if function is not None:
        return function  # type: ignore[no-any-return]
    try:
        raw = zes.getFunctionPointerList(name)
    except AttributeError as error:
        return Absent(f"this pyzes has no {name}: {error}")
    raw.restype = c_uint32
    return raw  # type: ignore[no-any-return]


def call(zes: Any, name: str, *arguments: Any, calls: Calls | None = None) -> Absent | None:
    """Call one function, which fills its arguments; None for success. A call that the driver does
    not support is not made again for a while."""
    before = _refused(name, arguments, calls)
    if before is not None:
        return before
    function = _function(zes, name)
    if isinstance(function, Absent):
        return function
    try:
        code = calls.make(name, function, *arguments) if calls else function(*arguments)
    except AttributeError as error:  # the loader lacks the symbol
        found = Absent(f"{name}: {error}")
        if calls is not None:
            calls.remember(name, found, for_ever=True)
        return found
    said = _said(zes, name, code)
    if calls is not None and said is not None and code & 0xFFFFFFFF == UNSUPPORTED:
        calls.remember(_key(name, arguments), said, for_ever=False)
    return said


def _refused(name: str, arguments: tuple[Any, ...], calls: Calls | None) -> Absent | None:
    if calls is None:
        return None
    return calls.refused(name) or calls.refused(_key(name, arguments))


def _key(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Key of one call: its function and its handle."""
    return (name, getattr(arguments[0], "value", None) if arguments else None)


def words_of(zes: Any) -> Callable[[int], tuple[str, Trouble]]:
    """Function from a code of ze_result_t to its text and the trouble of the card."""

    def words(code: int) -> tuple[str, Trouble]:
        return _words(zes, code), TROUBLES.get(code, "")

    return words


def _said(zes: Any, name: str, code: int) -> Absent | None:
    """The absence that a code means; None for success."""
    if not code:
        return None
    code &= 0xFFFFFFFF
    return Absent(f"{name}: {_words(zes, code)}", TROUBLES.get(code, ""))


def filled(zes: Any, name: str, handle: Any, made: Any, calls: Calls | None = None) -> Any:
    """The structure `made` after the function filled it, or the absence."""
    failed = call(zes, name, handle, ctypes.byref(made), calls=calls)
    return made if failed is None else failed


def listed(
    zes: Any, name: str, handle: Any, kind: Any, calls: Calls | None = None, *, most: int = 0
) -> Any:
    """Return the handles or structures that a function lists, at most HANDLES_MAX, or the absence.

    With `most` room is made for that many at once; otherwise a first call gets their number.
    """
    arguments = () if handle is None else (handle,)
    count = c_uint32(most)
    if not most:
        failed = call(zes, name, *arguments, ctypes.byref(count), None, calls=calls)
        if failed is not None:
            return failed
    count.value = min(count.value, most or HANDLES_MAX)
    if not count.value:
        return []
    found = (kind * count.value)()
    stype = getattr(kind, "STYPE", 0)
    for each in found if stype else ():
        each.stype = stype
    failed = call(zes, name, *arguments, ctypes.byref(count), found, calls=calls)
    return failed if failed is not None else list(found[: count.value])


def made(zes: Any, kind: str | type, stype: str | int = 0) -> Any:
    """A structure with its type set: one of the binding by name, or one of this file."""
    structure = getattr(zes, kind)() if isinstance(kind, str) else kind()
    if isinstance(stype, str):
        structure.stype = getattr(zes, stype, 0)
    elif not isinstance(kind, str) and hasattr(kind, "STYPE"):
        structure.stype = kind.STYPE
    return structure


def _words(zes: Any, code: int) -> str:
    for name in dir(zes):
        if name.startswith("ZE_RESULT_") and getattr(zes, name) == code:
            return name
    return f"ze_result_t {code:#x}"
