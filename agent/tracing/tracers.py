# SPDX-License-Identifier: Apache-2.0
"""The tracers inside one job's processes: this sets their mode and reads their answers.

Only this module knows how a fold controls tracers. Every drain renews the mode, so tracers become
dormant soon after the agent's death.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.agent.tracing.tracing_plan import LEASE_NS
from stoker.mesh.wire.schema import Steered, TracerView
from stoker.probes.kernels.job_trace import JobTrace


class Tracers:
    """The tracers of one job; call `apply` before its drain, `settled` and `views` after it."""

    def __init__(self, trace: JobTrace) -> None:
        self._trace = trace
        self._sent: tuple[Steered, int] | None = None

    def apply(self, mode: Steered, budget_ppm: int) -> None:
        """Set the mode of all tracers from the next drain on."""
        if (mode, budget_ppm) != self._sent:
            self._trace.control(mode, budget_ppm, LEASE_NS)
            self._sent = mode, budget_ppm

    def settled(self, mode: Steered) -> bool:
        """True if every tracer that can has switched to this mode."""
        return all(
            (each.settled and each.mode == mode) or each.stepped_aside
            for each in self._trace.answer()
        )

    def views(self) -> list[TracerView]:
        """Return the answer of each tracer."""
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
