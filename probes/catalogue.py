# SPDX-License-Identifier: Apache-2.0
"""The catalogue of kernel-side probes: stable ids, what each gives and what each needs.

Relied on by the host probes, the doctor and whoever prints why a figure is missing. An id never
changes its meaning; a probe that goes away keeps its id and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["attached", "refused", "unknown"]
"""attached: it measures; refused: the kernel said no; unknown: the kernel could not be asked."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe as it is known before anything is attached."""

    id: str
    gives: str
    needs: str


@dataclass(frozen=True, slots=True)
class ProbeState:
    """What became of one probe on this machine; `reason` is empty only when it is attached."""

    id: str
    state: State
    reason: str


HOST_PROBES: tuple[Probe, ...] = (
    Probe(
        "host.sched.switch",
        "time on CPU, runnable, blocked and in I/O per thread of a job",
        "tracepoint sched_switch, BTF, CAP_BPF and CAP_PERFMON",
    ),
    Probe(
        "host.sched.wakeup",
        "when a blocked thread became runnable, so run-queue delay",
        "tracepoint sched_wakeup, BTF, CAP_BPF and CAP_PERFMON",
    ),
    Probe(
        "host.sched.wakeup_new",
        "when a new thread became runnable for the first time",
        "tracepoint sched_wakeup_new, BTF, CAP_BPF and CAP_PERFMON",
    ),
    Probe(
        "host.sched.syscall",
        "the system call a thread blocks in",
        "helper bpf_task_pt_regs (Linux 5.15), x86-64 or arm64",
    ),
    Probe(
        "host.process.exec",
        "programs started inside jobs",
        "tracepoint sched_process_exec, BTF, CAP_BPF and CAP_PERFMON",
    ),
    Probe(
        "host.process.fork",
        "processes and threads created inside jobs",
        "tracepoint sched_process_fork, BTF, CAP_BPF and CAP_PERFMON",
    ),
    Probe(
        "host.process.exit",
        "exit code, signal and out-of-memory kills of a job's processes",
        "tracepoint sched_process_exit, BTF, CAP_BPF and CAP_PERFMON",
    ),
)
"""Every probe that `stoker.probes.host` attaches, in the order in which states are reported."""


def all_states(state: State, reason: str) -> list[ProbeState]:
    """The same answer for every host probe: nothing could be attached, for one reason."""
    return [ProbeState(probe.id, state, reason) for probe in HOST_PROBES]
