# SPDX-License-Identifier: Apache-2.0
"""AMD SMI as the amdsmi binding gives it: calls that never raise, metrics without its wrapper.

Relied on by the AMD vendor class and its cards. The binding prints while it is imported, wants all
its symbols to be there, and takes 0.3 ms to turn one metrics table into a dictionary; the table
itself is read here through the binding's own structure, into memory that is used again.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import sys
from functools import cache
from typing import Any

from stoker.agent.devices.card import Calls, key_of
from stoker.agent.devices.readings import Absent, Trouble

TROUBLES: dict[int, Trouble] = {
    10: "refused",  # no permission
    12: "lost",  # a file of the card cannot be read (EIO, ENODEV)
    31: "lost",  # device not found
    32: "missing",  # not initialised
    34: "missing",  # driver not loaded
    42: "mismatch",  # a table of another size than the library knows
    43: "lost",  # what a card off the bus is read as (rocm_smi_lib issue 85)
}
"""amdsmi_status_t -> what it says of the card."""
NOT_SUPPORTED = (2, 3)
NOT_APPLICABLE = "N/A"
SIM_SYMBOL = "stoker_sim_driver"
METRICS_CALL = "amdsmi_get_gpu_metrics_info"


def load() -> Any | str:
    """The binding, with its library loaded; or why there is none."""
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
    """Whether the library that the binding has loaded is a simulated one."""
    libraries = getattr(getattr(smi, "amdsmi_wrapper", None), "_libraries", {})
    return hasattr(libraries.get("libamd_smi.so"), SIM_SYMBOL)


def ask(smi: Any, name: str, *arguments: Any, calls: Calls | None = None) -> Any:
    """Call one function of the binding; "N/A" is an absence as well."""
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
    except (AttributeError, KeyError, ValueError) as error:  # of a library older than the binding
        return Absent(f"{name}: {error!r}")
    return Absent(f"{name}: {NOT_APPLICABLE}") if found == NOT_APPLICABLE else found


def part(found: Any, *path: str) -> Any:
    """What lies inside of an answer, or its absence."""
    where = ".".join(path)
    for key in path:
        if isinstance(found, Absent):
            return found
        found = found.get(key, NOT_APPLICABLE)
    return Absent(f"{where}: {NOT_APPLICABLE}") if found == NOT_APPLICABLE else found


def fill(  # noqa: PLR0917
    smi: Any, name: str, call: Any, arguments: tuple[Any, ...], calls: Calls, key: Any = None
) -> Absent | None:
    """Let a function of the library fill what it is given; why it did not, or None."""
    before = calls.refused(key or name)
    if before is not None:
        return before
    code = calls.make(name, call, *arguments)
    if not code:
        return None
    absent = Absent(f"{name}: {_words(smi.AmdSmiLibraryException(code))}", TROUBLES.get(code, ""))
    if code in NOT_SUPPORTED:
        calls.remember(key or name, absent, for_ever=False)
    return absent


def same_handle(one: Any, other: Any) -> bool:
    """Whether two handles are of one device: the binding's are new objects each time."""
    return bool(getattr(one, "value", one) == getattr(other, "value", other))


class Tables:
    """What functions fill of one card, each in memory of its own that is used again; the binding's
    wrappers clear 0.7 MB for a list of processes and make dictionaries of all that they are told.
    """

    def __init__(self, smi: Any, handle: Any) -> None:
        self._smi, self._handle = smi, handle
        self._wrapper = getattr(smi, "amdsmi_wrapper", None)
        self._made: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...], Any]] = {}

    def room(self, kind: str, count: int) -> Any:
        """An array of the binding's structure; None where it has none."""
        found = getattr(self._wrapper, kind, None)
        return None if found is None else found * count

    def ask(
        self, calls: Calls, name: str, kind: Any, *before: Any, after: tuple[Any, ...] = ()
    ) -> Any:
        """What `name(handle, *before, that, *after)` fills, valid until the same is asked again; an
        absence where it fills nothing. `kind`: a type, or the name of a structure."""
        key = (name, *[each for each in before if isinstance(each, int)])
        found = self._made.get(key)
        if found is None:
            found = self._make(name, kind, before, after)
            if isinstance(found, Absent):
                return found
            self._made[key] = found
        call, arguments, table = found
        failed = fill(self._smi, name, call, arguments, calls, key)
        return table if failed is None else failed

    def _make(self, name: str, kind: Any, before: tuple[Any, ...], after: tuple[Any, ...]) -> Any:
        kind = getattr(self._wrapper, kind, None) if isinstance(kind, str) else kind
        call = getattr(self._wrapper, name, None)
        if kind is None or call is None or None in before:
            return Absent(f"this amdsmi has no {name}")
        table = kind()
        filled = table if isinstance(table, ctypes.Array) else ctypes.byref(table)
        return call, (self._handle, *before, filled, *after), table


def known(table: Any, *path: str) -> Any:
    """An entry inside of a structure, or its absence: all ones mean that there is none."""
    holder = table
    for key in path:
        if isinstance(table, Absent):
            return table
        holder, table = table, getattr(table, key)
    kind: Any = type(holder)
    if table == _all_ones(_kinds(kind)[path[-1]]):
        return Absent(f"{'.'.join(path)}: {NOT_APPLICABLE}")
    return table


@cache
def _kinds(structure: Any) -> dict[str, Any]:
    return dict(structure._fields_)


class Metrics:
    """The metrics table of one card."""

    def __init__(self, smi: Any, handle: Any) -> None:
        self._handle = handle
        self._smi = smi
        wrapper = getattr(smi, "amdsmi_wrapper", None)
        kind = getattr(wrapper, "amdsmi_gpu_metrics_t", None)
        self.call = getattr(wrapper, METRICS_CALL, None)
        self.table: Any = kind() if kind is not None and self.call is not None else None
        self._missing = {name: _all_ones(each) for name, each in getattr(kind, "_fields_", ())}

    def read(self, calls: Calls) -> Absent | None:
        """Fill `table` anew; why not, or None."""
        if self.table is None or self.call is None:
            return Absent(f"this amdsmi has no {METRICS_CALL}")
        arguments = (self._handle, ctypes.byref(self.table))
        return fill(self._smi, METRICS_CALL, self.call, arguments, calls)

    def has(self, name: str) -> bool:
        """Whether this card has an entry, or the first of a list."""
        several = isinstance(getattr(self.table, name, None), ctypes.Array)
        return name in self._missing and not isinstance(
            self.number(name, 0 if several else None), Absent
        )

    def number(self, name: str, place: int | None = None) -> int | Absent:
        """One entry; all ones mean that this card does not have it."""
        value = getattr(self.table, name)
        if place is not None:
            value = value[place]
        if value == self._missing.get(name):
            return Absent(f"gpu_metrics {name}: {NOT_APPLICABLE}")
        return int(value)


def _all_ones(kind: Any) -> int:
    """Of an entry, or of each of a list."""
    return (1 << 8 * ctypes.sizeof(kind._type_ if hasattr(kind, "_length_") else kind)) - 1


def _words(error: Any) -> str:
    return str(getattr(error, "err_info", None) or error).strip()
