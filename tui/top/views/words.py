# SPDX-License-Identifier: Apache-2.0
"""Words and cells that several views share: shares, watts, bars, heat strips, states of jobs.

Pure. A reading that a device does not have is `-`, and a mark tells it from a low one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.mesh.wire.schema import DeviceView, JobView, RankTroubleView
from stoker.native.row_forms import short_id
from stoker.tui.render import units
from stoker.tui.render.nouns import ACCEPTED
from stoker.tui.top.lines import Line, Look, Piece, Tone

HOT_C = 85.0
"""The die temperature from which the heat strip warns."""

JOB_TONES: dict[str, Tone] = {
    "running": "good", "failed": "bad", "lost": "bad", "timeout": "bad", "succeeded": "dim",
    "cancelled": "dim",
}  # fmt: skip


def percent(share: float | None) -> str:
    """A share of 1 as whole percent, without a space: columns are narrow."""
    return "-" if share is None else f"{share:.0%}"


def watts(power: float | None) -> str:
    """Watts, in kilowatts from ten thousand on."""
    if power is None:
        return "-"
    return f"{power:.0f} W" if power < 10_000 else f"{power / 1000:.1f} kW"


def degrees(heat: float | None) -> str:
    """A temperature in degrees Celsius."""
    return "-" if heat is None else f"{heat:.0f} C"


def bar(share: float | None, width: int, look: Look) -> str:
    """A share as a bar of at most `width` cells; absent reads as `-`."""
    if share is None:
        return "-"
    return look.marks.full * min(max(round(share * width), 0), width)


def strip(devices: Sequence[DeviceView], look: Look, room: int) -> Line:
    """Each device of a node as one mark: its load by height; `x` gets no jobs, `!` is warned of or
    hot, `-` has no reading. Devices that nobody holds are dim."""
    spans = [_mark(device, look) for device in devices[:room]]
    if len(devices) > room:
        spans[-1] = Piece("+", "dim")
    return tuple(spans)


def _mark(device: DeviceView, look: Look) -> Piece:
    if device.unavailable or device.cordoned:
        return Piece("x", "bad")
    if device.warning or (device.temperature_c or 0) >= HOT_C:
        return Piece("!", "warn")
    if device.busy_ratio is None:
        return Piece("-", "dim")
    mark = look.marks.level(max(device.busy_ratio, 0.12))
    return Piece(mark, "good" if device.granted_milli else "dim")


def health(device: DeviceView) -> str:
    """The reasons why a device gets no jobs, or the warning of one that does, or `ok`."""
    told = [device.unavailable] if device.unavailable else []
    told += [f"cordoned: {device.cordoned}"] if device.cordoned else []
    if device.warning and not told:
        told.append(f"warning: {device.warning}")
    return "; ".join(told) or "ok"


def kind(device: DeviceView) -> str:
    """`SIM` for a simulated device, else what it is."""
    return "SIM" if device.sim else {"cpu": "CPU", "gpu": "GPU"}.get(device.kind, "said")


def array(job: JobView) -> str:
    """The jobs of the array that a row stands for, as every verb takes them; else nothing."""
    found = job.array
    if found is None or found.states is None:
        return ""
    return f"{found.first}-{found.first + found.size - 1}"


def number(job: JobView) -> str:
    """The number of a job, or those of an array."""
    return array(job) or str(job.job)


def states(job: JobView) -> Mapping[str, int]:
    """The number of jobs of a row in each state."""
    found = job.array.states if job.array is not None else None
    return {job.state: 1} if found is None else found


def count(rows: Sequence[JobView]) -> int:
    """The number of jobs that the rows stand for."""
    return sum(sum(states(row).values()) for row in rows)


def waiting(job: JobView) -> str:
    """The job whose reason to wait a row has: of an array the oldest one that waits."""
    found = job.array.waiting if job.array is not None else None
    return str(found or job.job)


def job_name(job: JobView) -> str:
    """The name of a job, or else its program."""
    return job.name or job.spec.argv[0].rpartition("/")[2] or "-"


def where(job: JobView) -> str:
    """The node of a job and its devices; SIM comes first, because a narrow column cuts the end."""
    if job.decision is None or array(job):
        return "-"
    if job.nodes:
        return f"{job.spec.tasks} ranks on {','.join(job.nodes)}"
    shares = ",".join(short_id(d.id or str(d.index)) for d in job.decision.devices)
    sim = "SIM " if any(d.sim for d in job.decision.devices) else ""
    return f"{sim}{job.decision.node}/{shares}" if shares else job.decision.node


def reason(job: JobView, now_ns: int) -> str:
    """The reason why a job waits or ended; what bounds one that runs, after ranks that are late.

    An array has the number of its jobs in each state, and why the oldest of them waits.
    """
    told = [trouble(each, now_ns) for each in job.troubles]
    if array(job):
        told += [units.counted(states(job)), job.waits]
    elif job.state == "pending" and not job.waits and job.reason == ACCEPTED:
        told.append("w tells why")
    elif job.state != "running":
        told.append(job.waits or job.reason)
    elif job.verdict is not None:
        told.append(job.verdict.text)
    elif job.spec.gpu_milli and job.verdict_absent:
        told.append(f"not known: {job.verdict_absent}")
    return "; ".join(filter(None, told))


def trouble(each: RankTroubleView, now_ns: int) -> str:
    """A rank that keeps others waiting: `slow rank 6 +20 % for 12 s: n2, GPU-1 (SIM)`."""
    longer = f" +{units.percent(each.longer)}" if each.longer is not None else ""
    since = ago(each.since_ns, now_ns)
    place = ", ".join((each.node, *map(short_id, each.devices))) + (" (SIM)" if each.sim else "")
    return f"{each.kind} rank {each.rank}{longer} for {since}: {place}"


def since(job: JobView, now_ns: int) -> str:
    """The time since a job's last change."""
    times = job.times
    return ago(times.ended_ns or times.started_ns or times.submitted_ns, now_ns)


def ago(t_ns: int | None, now_ns: int) -> str:
    """The time since a moment in whole seconds, so that a column does not flicker."""
    return "-" if not t_ns else units.duration(max(0, now_ns - t_ns) // 10**9 * 10**9)


def absent(need: str, refused: str, marks_wait: str = "reading ...") -> Line:
    """The line in place of a part that is not there: its reason, or that it is being read."""
    words = f"{need}: {refused}" if refused else marks_wait
    return (Piece(words, "warn" if refused else "dim"),)
