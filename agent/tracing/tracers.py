# SPDX-License-Identifier: Apache-2.0
"""The tracers inside one job's processes: told what to do, asked what they do.

The only place that knows how a fold speaks of its tracers. What is told is renewed by every drain,
so that tracers fall silent soon after the agent's death.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.agent.tracing.tracing_plan import LEASE_NS
from stoker.mesh.wire.schema import Steered, TracerView
from stoker.probes.kernels.job_trace import JobTrace


class Tracers:
    """Of one job; `tell` before its drain, `settled` and `views` after it."""

    def __init__(self, trace: JobTrace) -> None:
        self._trace = trace
        self._told: tuple[Steered, int] | None = None

    def tell(self, mode: Steered, budget_ppm: int) -> None:
        """What all of them are to do from the next drain on."""
        if (mode, budget_ppm) != self._told:
            self._trace.control(mode, budget_ppm, LEASE_NS)
            self._told = mode, budget_ppm

    def settled(self, mode: Steered) -> bool:
        """Whether every tracer that can does what is wanted."""
        return all(
            (each.settled and each.mode == mode) or each.stepped_aside
            for each in self._trace.answer()
        )

    def views(self) -> list[TracerView]:
        """What each of them says of itself."""
        return list(_views(self._trace))


def _views(trace: JobTrace) -> Iterable[TracerView]:
    for each in trace.answer():
        yield TracerView(
            pid=each.pid,
            tracer=f"{each.tracer} SIM" if each.simulated else each.tracer,
            mode=each.mode,
            phase=each.phase,
            switches=each.switches,
            switches_late=each.switches_late,
            pinned=each.pinned,
            holder=each.holder,
        )
