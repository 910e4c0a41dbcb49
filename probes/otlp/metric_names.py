# SPDX-License-Identifier: Apache-2.0
"""The one table of exported metrics, with a version: the name, unit and kind of each.

`hw.*` and `process.*` are OpenTelemetry's semantic conventions (1.44, in development); other
metrics are `stoker.*`, with UCUM units. `stoker.lower_bound` is true where launches were not
counted all the time, `stoker.estimate` where a value is computed from a part. A name never changes
its meaning; VERSION grows with every change of this table.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.probes.otlp.otlp_encoder import Kind

VERSION = "5"
SCOPE = "stoker.agent"


class Name(NamedTuple):
    """One metric. `attributes` distinguish its series, beside those of the resource."""

    name: str
    unit: str
    kind: Kind
    description: str
    attributes: tuple[str, ...]


_JOB = (
    "stoker.job.id",
    "stoker.job.attempt",
    "stoker.job.task",  # of the tasks after the first, so that no two of a job share a series
    "stoker.job.name",
    "stoker.job.user",
    "stoker.job.queue",
)
_DEVICE = ("hw.id", "hw.type", "hw.name", "hw.vendor")

NAMES: tuple[Name, ...] = (
    Name("hw.gpu.utilization", "1", "gauge", "Share of time in which the device worked", _DEVICE),
    Name("hw.gpu.memory.limit", "By", "updown", "Memory of the device", _DEVICE),
    Name("hw.gpu.memory.usage", "By", "updown", "Memory of the device in use", _DEVICE),
    Name("hw.gpu.memory.utilization", "1", "gauge", "Share of its memory in use", _DEVICE),
    Name("hw.gpu.io", "By", "sum", "Bytes over PCIe", (*_DEVICE, "network.io.direction")),
    Name("hw.power", "W", "gauge", "Power that the device draws", _DEVICE),
    Name("hw.energy", "J", "sum", "Energy since the driver was loaded", _DEVICE),
    Name(
        "hw.temperature",
        "Cel",
        "gauge",
        "Temperature of the device, or of one of its parts",
        (*_DEVICE, "hw.sensor_location"),
    ),
    Name(
        "hw.temperature.limit",
        "Cel",
        "gauge",
        "Temperature at which the device slows down, and at which it turns off",
        (*_DEVICE, "hw.limit_type"),
    ),
    Name("hw.status", "1", "updown", "1 for the state it is in", (*_DEVICE, "hw.state")),
    Name("hw.errors", "{error}", "sum", "Errors of memory and PCIe", (*_DEVICE, "error.type")),
    Name("hw.fan.speed_ratio", "1", "gauge", "Fan speed as a share of its highest", _DEVICE),
    Name("hw.fan.speed", "rpm", "gauge", "Fan speed", _DEVICE),
    Name("stoker.gpu.clock", "Hz", "gauge", "Clock", (*_DEVICE, "stoker.clock.domain")),
    Name(
        "stoker.gpu.clock.limit", "Hz", "gauge", "Highest clock", (*_DEVICE, "stoker.clock.domain")
    ),
    Name("stoker.gpu.power.limit", "W", "gauge", "Power limit in force", _DEVICE),
    Name("stoker.gpu.memory.busy", "1", "gauge", "Share of time memory was accessed", _DEVICE),
    Name("stoker.gpu.memory.bandwidth", "1", "gauge", "Share of memory bandwidth in use", _DEVICE),
    Name(
        "stoker.gpu.pipe",
        "1",
        "gauge",
        "Share of time in which SMs had a warp, or tensor cores worked",
        (*_DEVICE, "stoker.gpu.pipe"),
    ),
    Name(
        "stoker.gpu.throttled",
        "ns",
        "sum",
        "Time for which each throttle was in force; they may overlap",
        (*_DEVICE, "stoker.throttle"),
    ),
    Name(
        "stoker.gpu.throttle",
        "1",
        "updown",
        "1 for each reason why the clock is below the highest now",
        (*_DEVICE, "stoker.throttle"),
    ),
    Name(
        "stoker.gpu.memory.repairs",
        "{repair}",
        "gauge",
        "Pages and rows of memory that were, will be or could not be replaced",
        (*_DEVICE, "stoker.repair"),
    ),
    Name("stoker.gpu.pcie.generation", "{generation}", "gauge", "PCIe generation in use", _DEVICE),
    Name("stoker.gpu.pcie.lanes", "{lane}", "gauge", "PCIe lanes in use", _DEVICE),
    Name(
        "stoker.gpu.links",
        "{link}",
        "updown",
        "Links to other devices",
        (*_DEVICE, "stoker.link.state"),
    ),
    Name(
        "stoker.gpu.link.io",
        "By",
        "sum",
        "Bytes over all links to other devices",
        (*_DEVICE, "network.io.direction"),
    ),
    Name("stoker.gpu.link.errors", "{error}", "sum", "Errors of those links", _DEVICE),
    Name("stoker.gpu.processes", "{process}", "updown", "Processes on the device", _DEVICE),
    Name(
        "stoker.device.allocation",
        "1",
        "gauge",
        "Share of the device that a running task holds",
        (*_DEVICE, *_JOB),
    ),
    Name(
        "stoker.job.idle",
        "1",
        "gauge",
        "Share of the past 10 to 20 s in which nobody used the devices that the job holds",
        _JOB,
    ),
    Name(
        "stoker.job.kernel.duration",
        "ns",
        "histogram",
        "Device time of the kernel's timed launches",
        (*_JOB, "stoker.kernel.name"),
    ),
    Name(
        "stoker.job.kernel.launches",
        "{launch}",
        "sum",
        "Launches that were counted; there were at least so many where that is a lower bound",
        (*_JOB, "stoker.kernel.name", "stoker.lower_bound"),
    ),
    Name(
        "stoker.job.kernel.time",
        "ns",
        "updown",
        "Device time of all launches; an estimate where not all were timed or seen",
        (*_JOB, "stoker.kernel.name", "stoker.estimate"),
    ),
    Name(
        "stoker.job.copies",
        "{copy}",
        "sum",
        "Copies that were counted",
        (*_JOB, "stoker.copy.kind", "stoker.lower_bound"),
    ),
    Name(
        "stoker.job.copy.io",
        "By",
        "sum",
        "Bytes that those copied",
        (*_JOB, "stoker.copy.kind", "stoker.lower_bound"),
    ),
    Name(
        "stoker.job.device.time",
        "ns",
        "updown",
        "Where the device's time went; the causes add up to the window",
        (*_JOB, "hw.id", "stoker.cause", "stoker.estimate"),
    ),
    Name(
        "stoker.job.device.throttled",
        "ns",
        "updown",
        "For how long each throttle was in force while the device worked; they may overlap",
        (*_JOB, "hw.id", "stoker.throttle", "stoker.source"),
    ),
    Name(
        "stoker.job.tracing",
        "1",
        "updown",
        "1 for the mode wanted of the job's tracers",
        (*_JOB, "stoker.trace.mode"),
    ),
    Name("stoker.job.tracing.budget", "1", "gauge", "Share of its time tracing may cost", _JOB),
    Name("stoker.job.tracing.cost", "1", "gauge", "Share of its time tracing has cost", _JOB),
    Name(
        "stoker.job.tracing.governed_cost",
        "1",
        "gauge",
        "What the governor measured in its last period",
        (*_JOB, "stoker.part"),
    ),
    Name("stoker.job.records.made", "{record}", "sum", "Records the tracers made", _JOB),
    Name("stoker.job.records.folded", "{record}", "sum", "Records folded", _JOB),
    Name(
        "stoker.job.lost",
        "{event}",
        "updown",
        "What was lost, by the counter that counted it",
        (*_JOB, "stoker.counter"),
    ),
    Name("stoker.clock.error", "ns", "gauge", "Error of the alignment", (*_JOB, "stoker.clock")),
    Name(
        "stoker.agent.check",
        "1",
        "updown",
        "1 if this part works that jobs need: `/readyz` says why one does not",
        ("stoker.check",),
    ),
    Name("process.cpu.time", "s", "sum", "CPU time of the agent", ()),
    Name("process.memory.usage", "By", "updown", "Resident memory of the agent", ()),
    Name("stoker.agent.threads", "{thread}", "updown", "Threads of the agent", ()),
    Name("process.uptime", "s", "gauge", "Time since the agent started", ()),
    Name("stoker.agent.events", "{event}", "sum", "The agent's counters", ("stoker.counter",)),
    Name(
        "stoker.scheduler.events",
        "{event}",
        "sum",
        "The counters of the scheduler on this node",
        ("stoker.counter",),
    ),
    Name("stoker.scheduler.leads", "1", "updown", "1 while that scheduler leads", ()),
    Name("stoker.log.term", "{term}", "gauge", "Term of the log that it has read", ()),
    Name("stoker.log.index", "{entry}", "gauge", "Log entry that its state reflects", ()),
    Name(
        "stoker.cluster.events",
        "{event}",
        "gauge",
        "Events since the first entry of the log; told by the leader's node",
        ("stoker.counter",),
    ),
    Name(
        "stoker.cluster.objects",
        "{object}",
        "gauge",
        "Nodes, devices, tasks and waiting jobs; told by the leader's node",
        ("stoker.object",),
    ),
    Name(
        "stoker.queue.pending",
        "{job}",
        "gauge",
        "Jobs that wait in the queue and those below it; told by the leader's node",
        ("stoker.queue",),
    ),
    Name(
        "stoker.queue.live",
        "{job}",
        "gauge",
        "Jobs of the queue itself that wait or run; told by the leader's node",
        ("stoker.queue",),
    ),
    Name(
        "stoker.queue.devices",
        "{device}",
        "gauge",
        "Devices that jobs of the queue and those below it hold; told by the leader's node",
        ("stoker.queue",),
    ),
    Name("stoker.export.failed", "{point}", "sum", "Points that reached no collector", ()),
    Name(
        "stoker.export.refused",
        "{point}",
        "sum",
        "Points beyond the limit of series, by metric",
        ("stoker.metric",),
    ),
)

BY_NAME = {name.name: name for name in NAMES}
