# SPDX-License-Identifier: Apache-2.0
"""NVML as the nvidia-ml-py binding gives it: calls that never raise, for what is asked seldom.

Every symbol is looked up when it is called, so a driver that lacks one costs that field alone.
Numbers are nvml.h's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from stoker.agent.devices.card import SIM_SYMBOL, Calls, key_of
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
"""nvmlReturn_t -> trouble of the card."""


def call(nvml: Any, name: str, *arguments: Any, calls: Calls | None = None) -> Any:
    """Call one NVML function; an absence if the binding lacks it or the driver refuses."""
    function = getattr(nvml, name, None)
    if function is None:
        return Absent(f"this pynvml has no {name}")
    if calls is None:
        try:
            return function(*arguments)
        except nvml.NVMLError as error:
            return absent(name, error)
    return calls.refused(key_of(name, arguments)) or _made(nvml, name, function, arguments, calls)


def _made(nvml: Any, name: str, function: Any, arguments: tuple[Any, ...], calls: Calls) -> Any:
    """Make a call, and remember it if the driver or the library does not have it."""
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
    """Answer of the first function that the driver has, the newest function first."""
    found: Any = Absent("nothing was asked")
    for name in names:
        found = call(nvml, name, *arguments, calls=calls)
        if not isinstance(found, Absent) or found.trouble:
            return found
    return found


def absent(name: str, error: Any) -> Absent:
    """An error of the binding as an absence with NVML's own words."""
    return Absent(f"{name}: {error}", TROUBLES.get(getattr(error, "value", -1), ""))


def words_of(nvml: Any) -> Callable[[int], tuple[str, Trouble]]:
    """Function from a code of nvmlReturn_t to its text and the trouble of the card."""

    def words(code: int) -> tuple[str, Trouble]:
        return str(nvml.NVMLError(code)), TROUBLES.get(code, "")

    return words


def text(value: Any) -> Any:
    """Bytes as text, since older bindings return bytes; any other value unchanged."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def address_of(handle: Any) -> int:
    """A handle as a number, for the vendor's table in C."""
    if isinstance(handle, ctypes._Pointer):
        return ctypes.cast(handle, ctypes.c_void_p).value or 0
    return int(handle)


def same_handle(one: Any, other: Any) -> bool:
    """True if two handles name one device; the binding's pointers differ as objects."""
    return address_of(one) == address_of(other)


def is_sim(nvml: Any) -> bool:
    """True if the library that the binding has loaded is a simulated one."""
    return hasattr(getattr(nvml, "nvmlLib", None), SIM_SYMBOL)


def impostor(nvml: Any) -> str:
    """Sentence that the module `pynvml` is not the one of nvidia-ml-py; empty if it is.

    Several packages install a module of this name and shadow one another; the old ones lack
    functions and misread structures of newer drivers.
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
