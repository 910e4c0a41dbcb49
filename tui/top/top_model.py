# SPDX-License-Identifier: Apache-2.0
"""The frame that the live view shows, computed from the cluster's replies.

Pure: the time of the replies is an argument. A missing value is shown as `-`, and `stoker metrics`
gives the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stoker.mesh.wire.schema import DeviceView, JobView, KernelRow, NodeView, RankTroubleView
from stoker.scheduler.nouns import ENDED
from stoker.tui.render import units
from stoker.tui.top.table_view import ViewColumn, ViewRow


class Layout(NamedTuple):
    """One table of the view: its columns, and the text shown while it is empty."""

    columns: tuple[ViewColumn, ...]
    empty: str


class ClusterAnswers(NamedTuple):
    """One reading of the cluster; `read_ns` is CLOCK_REALTIME."""

    nodes: Sequence[NodeView]
    devices: Sequence[DeviceView]
    jobs: Sequence[JobView]
    kernels: Sequence[KernelRow]
    read_ns: int


class Frame(NamedTuple):
    """The content of the screen: the headline and the rows of each table."""

    headline: str
    tables: dict[str, list[ViewRow]]


TABLES: dict[str, Layout] = {
    "nodes": Layout(
        (
            ViewColumn("NODE", 18),
            ViewColumn("STATE", 7),
            ViewColumn("JOBS", 6, right=True),
            ViewColumn("DEVICES", 7, right=True),
            ViewColumn("LOAD", 7, right=True),
            ViewColumn("MEMORY FREE", 11, right=True),
            ViewColumn("MISSING", 48),
        ),
        "no node has reported",
    ),
    "devices": Layout(
        (
            ViewColumn("DEVICE", 18),
            ViewColumn("MODEL", 24),
            ViewColumn("KIND", 11),
            ViewColumn("GRANTED", 7, right=True),
            ViewColumn("BUSY", 5, right=True),
            ViewColumn("POWER", 7, right=True),
            ViewColumn("TEMP", 5, right=True),
            ViewColumn("JOBS", 10),
            ViewColumn("HEALTH", 48),
        ),
        "no node has a device",
    ),
    "jobs": Layout(
        (
            ViewColumn("JOB", 7, right=True),
            ViewColumn("NAME", 24),
            ViewColumn("USER", 12),
            ViewColumn("STATE", 10),
            ViewColumn("GPUS", 6, right=True),
            ViewColumn("NODE", 16),
            ViewColumn("AGE", 9, right=True),
            ViewColumn("REASON", 40),
        ),
        "no jobs",
    ),
    "kernels": Layout(
        (
            ViewColumn("JOB", 7, right=True),
            ViewColumn("KERNEL", 40),
            ViewColumn("COUNT", 12, right=True),
            ViewColumn("TOTAL", 12, right=True),
            ViewColumn("P50", 9, right=True),
            ViewColumn("P99", 9, right=True),
        ),
        "no traced job is running",
    ),
}

_TONES = {"running": "good", "failed": "bad", "lost": "bad", "timeout": "bad", "succeeded": "dim"}


def frame(answers: ClusterAnswers) -> Frame:
    """The frame for one reading of the cluster."""
    return Frame(
        _headline(answers),
        {
            "nodes": [_node(node) for node in answers.nodes],
            "devices": [_device(device) for device in answers.devices],
            "jobs": [_job(job, answers.read_ns) for job in answers.jobs],
            "kernels": [_kernel(kernel) for kernel in answers.kernels],
        },
    )


def plain(shown: Frame) -> str:
    """A frame as lines of text, for a pipe, a screen reader or a log."""
    lines = [shown.headline]
    for name, rows in shown.tables.items():
        titles = [column.title for column in TABLES[name].columns]
        lines += ["", name, "  " + "  ".join(titles)]
        lines += ["  " + "  ".join(row.cells) for row in rows] or ["  " + TABLES[name].empty]
    return "\n".join(lines)


def _headline(answers: ClusterAnswers) -> str:
    active = [job for job in answers.jobs if job.state not in ENDED]
    running = sum(job.state in ("running", "stopping") for job in active)
    granted = sum(device.granted_milli for device in answers.devices)
    parts = [
        f"{len(answers.nodes)} nodes",
        f"{len(answers.devices)} devices, {units.share(granted)} granted",
        f"{running} running",
        f"{len(active) - running} waiting",
    ]
    if troubled := sum(bool(job.troubles) for job in active):
        parts.append(f"{troubled} with a rank that keeps others waiting")
    if any(device.sim for device in answers.devices):
        parts.append("SIM: some devices are simulated")
    return "stoker   " + "   ".join(parts)


def _node(node: NodeView) -> ViewRow:
    load = None if node.load_milli is None else f"{node.load_milli / 1000:.2f}"
    cells = (
        node.node,
        node.state,
        units.number(node.jobs),
        units.number(node.devices),
        load or "-",
        units.size(node.memory_free_bytes),
        "; ".join(node.missing) or "nothing",
    )
    return ViewRow(node.node, cells, "good" if node.state == "ready" else "bad")


def _device(device: DeviceView) -> ViewRow:
    kind = {"cpu": "CPU, no GPU"}.get(device.kind, device.kind)
    cells = (
        device.id,
        device.model,
        "SIM" if device.sim else kind,
        units.share(device.granted_milli),
        "-" if device.busy_ratio is None else f"{device.busy_ratio:.0%}",
        "-" if device.power_w is None else f"{device.power_w:.0f} W",
        "-" if device.temperature_c is None else f"{device.temperature_c:.0f} C",
        ",".join(map(str, device.jobs[:6])) or "-",
        _health(device),
    )
    kept_from = device.unavailable or device.cordoned
    return ViewRow(f"{device.node}/{device.id}", cells, "bad" if kept_from else "")


def _health(device: DeviceView) -> str:
    """The reasons why a device gets no jobs, or the warning of one that does, or `ok`."""
    told = [device.unavailable] if device.unavailable else []
    told += [f"cordoned: {device.cordoned}"] if device.cordoned else []
    if device.warning and not told:
        told.append(f"warning: {device.warning}")
    return "; ".join(told) or "ok"


def _job(job: JobView, now_ns: int) -> ViewRow:
    since = job.times.ended_ns or job.times.started_ns or job.times.submitted_ns
    cells = (
        str(job.job),
        job.name or job.spec.argv[0].rpartition("/")[2],
        job.user,
        job.state,
        units.share(job.spec.gpu_milli * job.spec.tasks),
        ",".join(job.nodes) or (job.decision.node if job.decision else "-"),
        units.age(since, now_ns),
        "; ".join(filter(None, (*(_trouble(each, now_ns) for each in job.troubles), _why(job)))),
    )
    return ViewRow(str(job.job), cells, "bad" if job.troubles else _TONES.get(job.state, ""))


def _why(job: JobView) -> str:
    """The reason why a job waits or how it ended; what bounds one that runs."""
    if job.state != "running":
        return job.waits or job.reason
    if job.verdict is not None:
        return job.verdict.text
    return f"not known: {job.verdict_absent}" if job.spec.gpu_milli and job.verdict_absent else ""


def _trouble(trouble: RankTroubleView, now_ns: int) -> str:
    """A rank that keeps others waiting: `slow rank 6 +20 % for 12 s: n2, GPU-1 (SIM)`."""
    longer = f" +{units.percent(trouble.longer)}" if trouble.longer is not None else ""
    since = units.age(trouble.since_ns, now_ns)
    where = ", ".join((trouble.node, *trouble.devices)) + (" (SIM)" if trouble.sim else "")
    return f"{trouble.kind} rank {trouble.rank}{longer} for {since}: {where}"


def _kernel(kernel: KernelRow) -> ViewRow:
    total = units.duration(kernel.total_ns)
    cells = (
        str(kernel.job),
        kernel.name,
        units.number(kernel.count)
        if kernel.seen >= 1
        else units.at_least(units.number(kernel.count), kernel.seen),
        f"~{total}" if kernel.estimate else total,
        units.duration(kernel.p50_ns),
        units.duration(kernel.p99_ns),
    )
    return ViewRow(f"{kernel.job}/{kernel.name}", cells)
