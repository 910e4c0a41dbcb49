# SPDX-License-Identifier: Apache-2.0
"""Calls into AMD SMI through the amdsmi binding, for fields that are read seldom.

Invariant: a call never raises. The binding prints while it is imported, and its import fails if the
library lacks one symbol.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from collections.abc import Callable
from typing import Any

from stoker.agent.devices.card import SIM_SYMBOL, Calls, key_of
from stoker.agent.devices.readings import Absent, Trouble

TROUBLES: dict[int, Trouble] = {
    10: "refused",  # no permission
    12: "lost",  # a file of the card cannot be read (EIO, ENODEV)
    31: "lost",  # device not found
    32: "missing",  # not initialised
    34: "missing",  # driver not loaded
    42: "mismatch",  # a table of another size than the library knows
    43: "lost",  # a card off the bus reads as this (rocm_smi_lib issue 85)
}
"""amdsmi_status_t -> trouble of the card."""
NOT_SUPPORTED = (2, 3)
NOT_APPLICABLE = "N/A"


def load() -> Any | str:
    """The binding with its library loaded, or the reason why it cannot be used."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            return importlib.import_module("amdsmi")
    except ImportError:
        return "the amdsmi package is not installed (pip install 'stoker[amd]')"
    except Exception as error:  # KeyError without a library, AttributeError with an old one
        for name in [name for name in sys.modules if name.partition(".")[0] == "amdsmi"]:
            del sys.modules[name]
        words = " ".join(said.getvalue().split())
        lacks = f"its library lacks a symbol: {error}" if not isinstance(error, KeyError) else ""
        return f"amdsmi cannot be used: {lacks or words or repr(error)}"


def is_sim(smi: Any) -> bool:
    """True if the library that the binding has loaded is a simulated one."""
    libraries = getattr(getattr(smi, "amdsmi_wrapper", None), "_libraries", {})
    return hasattr(libraries.get("libamd_smi.so"), SIM_SYMBOL)


def call(smi: Any, name: str, *arguments: Any, calls: Calls | None = None) -> Any:
    """Call one function of the binding; an error and the answer "N/A" are absences."""
    function = getattr(smi, name, None)
    if function is None:
        return Absent(f"this amdsmi has no {name}")
    key = key_of(name, arguments)
    before = calls.refused(key) if calls is not None else None
    if before is not None:
        return before
    try:
        found = calls.make(name, function, *arguments) if calls else function(*arguments)
    except smi.AmdSmiException as error:
        code = getattr(error, "err_code", -1)
        absent = Absent(f"{name}: {_words(error)}", TROUBLES.get(code, ""))
        if calls is not None and code in NOT_SUPPORTED:
            calls.remember(key, absent, for_ever=False)
        return absent
    except (AttributeError, KeyError, ValueError) as error:  # the library is older than the binding
        return Absent(f"{name}: {error!r}")
    return Absent(f"{name}: {NOT_APPLICABLE}") if found == NOT_APPLICABLE else found


def part(found: Any, *path: str) -> Any:
    """A nested part of an answer, or its absence."""
    where = ".".join(path)
    for key in path:
        if isinstance(found, Absent):
            return found
        found = found.get(key, NOT_APPLICABLE)
    return Absent(f"{where}: {NOT_APPLICABLE}") if found == NOT_APPLICABLE else found


def same_handle(one: Any, other: Any) -> bool:
    """True if two handles name one device; the binding makes a new object each time."""
    return bool(getattr(one, "value", one) == getattr(other, "value", other))


def words_of(smi: Any) -> Callable[[int], tuple[str, Trouble]]:
    """Function from a code of amdsmi_status_t to its text and the trouble of the card."""

    def words(code: int) -> tuple[str, Trouble]:
        return _words(smi.AmdSmiLibraryException(code)), TROUBLES.get(code, "")

    return words


def _words(error: Any) -> str:
    return str(getattr(error, "err_info", None) or error).strip()
