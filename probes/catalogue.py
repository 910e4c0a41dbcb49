# SPDX-License-Identifier: Apache-2.0
"""The catalogue of kernel-side probes: stable ids, results and requirements.

An id never changes its meaning; a removed probe keeps its id and is marked as removed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["attached", "refused", "unknown", "off"]
"""attached: it measures; refused: by the kernel; unknown: the kernel could not be queried; off: too
expensive until it is requested.
"""

Payer = Literal["job", "rare", "call", "fault", "wait"]
"""The tasks that pay for a probe. job: jobs alone, others return after a few plain loads; rare:
all, but seldom; call: every system call of the machine; fault: every page fault of it; wait: every
wait of jobs that request it.
"""


class Probe(msgspec.Struct, frozen=True):
    """The static description of one probe."""

    id: str
    gives: str
    needs: str
    payer: Payer = "job"


class ProbeState(msgspec.Struct, frozen=True):
    """The state of one probe on this machine; `reason` is empty only if it is attached."""

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
    Probe(
        "host.memory.user_fault",
        "page faults of a job's own code",
        "tracepoint page_fault_user (x86-64), BTF; a job that asks",
        "fault",
    ),
    Probe(
        "host.memory.kernel_fault",
        "page faults of the kernel on a job's behalf",
        "tracepoint page_fault_kernel (x86-64), BTF; a job that asks",
        "fault",
    ),
    Probe(
        "host.memory.reclaim",
        "time a job's threads spend freeing the node's memory",
        "tracepoints mm_vmscan_direct_reclaim_begin and _end, BTF",
    ),
    Probe(
        "host.memory.group_reclaim",
        "time a job's threads spend freeing memory for their own limit",
        "tracepoints mm_vmscan_memcg_reclaim_begin and _end, BTF",
    ),
    Probe(
        "host.memory.reclaim_sleep",
        "sleeps of a job's threads because nothing can be freed",
        "tracepoint mm_vmscan_throttled (Linux 5.16), BTF",
    ),
    Probe(
        "host.block.request",
        "requests to block devices by job, with their lengths",
        "tracepoints block_io_start and _done (6.5) or block_rq_issue and _complete, BTF",
    ),
    Probe(
        "host.network.retransmit",
        "TCP segments of a job's sockets that were sent again",
        "tracepoint tcp_retransmit_skb, cgroups of sockets, BTF",
        "rare",
    ),
    Probe(
        "host.irq.handler",
        "time interrupt handlers take from a job's running threads",
        "tracepoints irq_handler_entry and _exit, BTF",
    ),
    Probe(
        "host.irq.softirq",
        "time softirqs take from a job's running threads",
        "tracepoints softirq_entry and _exit, BTF",
    ),
    Probe(
        "host.device.open",
        "device files that jobs open, and which were refused",
        "a cgroup device program beside the gate: Linux 5.18 tells of refusals",
    ),
    Probe(
        "host.critical.oom_kill",
        "processes of jobs killed because memory ran out",
        "tracepoint mark_victim, BTF",
        "rare",
    ),
    Probe(
        "host.critical.signal",
        "signals that end a job's process, and who sent them",
        "tracepoint signal_generate, BTF",
    ),
    Probe(
        "host.critical.killed_exit",
        "processes of jobs that ended by a signal",
        "tracepoint sched_process_exit, BTF",
    ),
    Probe(
        "host.critical.xid",
        "errors (Xid) that the NVIDIA driver reports, none lost",
        "tracepoint nvidia_dev_xid of the NVIDIA driver",
        "rare",
    ),
    Probe(
        "host.power.frequency",
        "clocks of the node's CPUs",
        "tracepoint cpu_frequency, BTF",
        "rare",
    ),
    Probe(
        "host.power.temperature",
        "temperatures of the node's thermal zones",
        "tracepoint thermal_temperature, BTF",
        "rare",
    ),
    Probe(
        "host.power.trip",
        "thermal limits that were passed",
        "tracepoint thermal_zone_trip, BTF",
        "rare",
    ),
    Probe(
        "host.power.cooling",
        "how hard the node's cooling devices throttle",
        "tracepoint cdev_update, BTF",
        "rare",
    ),
    Probe(
        "host.gpu.fence_wait",
        "waits inside the kernel for a GPU's fence",
        "tracepoints dma_fence_wait_start and _end, BTF",
    ),
    Probe(
        "host.gpu.queue",
        "time GPU jobs wait in a DRM scheduler",
        "tracepoints drm_sched_job_queue and _run (6.17), or drm_sched_job and drm_run_job",
    ),
    Probe(
        "host.gpu.run",
        "time GPU jobs take below a DRM scheduler",
        "tracepoint drm_sched_job_done (6.17) or drm_sched_process_job of a GPU driver, its BTF",
    ),
    Probe(
        "host.device.ioctl",
        "calls into device drivers by process and device, with their lengths",
        "tracepoints sys_enter and sys_exit, BTF; a job that asks",
        "call",
    ),
    Probe(
        "host.sched.stack",
        "the stacks of a job's longest waits",
        "tracepoints sched_switch and sched_wakeup, BTF; a job that asks",
        "wait",
    ),
    Probe(
        "host.memory.handling",
        "time on CPU that a job's page faults take",
        "host.memory.user_fault, software events of page faults; a job that asks",
        "fault",
    ),
)
"""Every probe that `probes/host/host_probes.py` attaches, in the order of its report."""


SPAN_PROBES = (
    "host.sched.switch",
    "host.sched.wakeup",
    "host.sched.wakeup_new",
    "host.sched.syscall",
)
"""Probes that produce the spans and times of threads."""


def all_states(state: State, reason: str) -> list[ProbeState]:
    """Return one state for every host probe, when nothing could be attached for one reason."""
    return [ProbeState(probe.id, state, reason) for probe in HOST_PROBES]
