# SPDX-License-Identifier: Apache-2.0
"""The fast call of one AMD GPU as data: its metrics table, of which each number has a place.

Relied on by `amd_card.py`. Layout and function are those of the binding's own library. A binding
without them (a fake one) gets no plan.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from stoker.agent.devices.amd_smi import METRICS_CALL, Metrics
from stoker.agent.devices.plan import Plan, Snapshot, address
from stoker.agent.devices.readings import Absent
from stoker.native import _devices

KINDS = {2: _devices.U16, 4: _devices.U32, 8: _devices.U64}
MHZ = 1e6
TAPS: tuple[tuple[str, tuple[str, ...], float], ...] = (
    ("power_w", ("current_socket_power", "average_socket_power"), 1.0),
    ("power_average_w", ("average_socket_power",), 1.0),
    ("temperature_c", ("temperature_edge", "temperature_hotspot"), 1.0),
    ("memory_temperature_c", ("temperature_mem",), 1.0),
    ("busy_ratio", ("average_gfx_activity",), 0.01),
    ("memory_busy_ratio", ("average_umc_activity",), 0.01),
    ("clock_hz", ("current_gfxclk", "current_gfxclks"), MHZ),
    ("memory_clock_hz", ("current_uclk",), MHZ),
)
"""Field -> entries of the table, the first that this card has."""


class AmdPlan:
    """The plan of one GPU by `metrics`, its table as it was read once; answers go into `into`."""

    def __init__(self, handle: Any, metrics: Metrics, into: Metrics, count_j: float) -> None:
        self.plan = Plan()
        self._metrics = metrics
        self._into = into
        size = ctypes.sizeof(metrics.table)
        value = handle.value if hasattr(handle, "value") else handle
        step = self.plan.call((METRICS_CALL,), address(metrics.call), (int(value or 0),), size)
        for name, entries, scale in TAPS:
            entry = next((e for e in entries if metrics.has(e)), None)
            if entry is not None:
                kind, at = self._place(entry)
                self.plan.tap(name, step, kind, at=at, scale=scale, gaps=True)
        if metrics.has("energy_accumulator"):
            kind, at = self._place("energy_accumulator")
            self.plan.tap("energy_j", step, kind, at=at, scale=count_j, gaps=True)
            self.plan.rate("energy_power_w", "energy_j")

    def _place(self, entry: str) -> tuple[int, int]:
        """Kind and offset of an entry, or of the first of a list."""
        kind = dict(self._metrics.table._fields_)[entry]
        element: Any = getattr(kind, "_type_", kind) if hasattr(kind, "_length_") else kind
        return KINDS[ctypes.sizeof(element)], getattr(type(self._metrics.table), entry).offset

    def answers(self, found: Snapshot) -> Callable[[str, tuple[Any, ...]], Any]:
        """The call answered by a snapshot, as `Calls.replay` wants it."""

        def answer(name: str, arguments: tuple[Any, ...]) -> Any:
            step = self.plan.answers.get((name,))
            if step is None:
                return Absent(f"{name} is not asked ten times a second")
            data = found.memory[step.offset : step.offset + step.size]
            ctypes.memmove(ctypes.addressof(self._into.table), data, step.size)
            return found.codes[step.place]

        return answer
