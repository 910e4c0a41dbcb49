# SPDX-License-Identifier: Apache-2.0
"""Everything that the live view knows of a cluster: the newest answer to each request.

Values, no I/O: the reader replaces parts, and views read them. A part that nobody requested is
None, and one that was refused has its reason in `refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from stoker.mesh.client.kept_telemetry import Told
from stoker.mesh.wire.schema import (
    ClusterView,
    DeviceView,
    ExplainView,
    JobView,
    NodeView,
    QueueView,
    ReadingsView,
    TopologyView,
)
from stoker.mesh.wire.schema_alerts import AlertList
from stoker.mesh.wire.schema_telemetry import TelemetryList

Need: TypeAlias = Literal[
    "nodes", "devices", "jobs", "queues", "cluster", "streams", "events", "summaries",
    "alerts", "alert_counts", "job", "array", "logs", "explain", "readings", "topology",
]  # fmt: skip
"""One request that a view may need; the last six are about the view's subject. How many alerts
fire is needed by every view, whose first line says it."""

STALE_NS: Final = 2_000_000_000
"""Older data is marked: a person may not take it for the present."""


class Logs(NamedTuple):
    """The end of a job's output: lines of both streams as they were read."""

    lines: tuple[str, ...] = ()
    skipped_bytes: int = 0
    """The output before these lines, which the view does not hold."""
    eof: bool = False


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The newest answers; `at_ns` (CLOCK_REALTIME) is the time of the newest complete reading."""

    at_ns: int = 0
    nodes: Sequence[NodeView] | None = None
    devices: Sequence[DeviceView] | None = None
    jobs: Sequence[JobView] | None = None
    """The jobs, of which one row may stand for those of an array."""
    jobs_cut: bool = False
    """True if there are more jobs than were read."""
    queues: Sequence[QueueView] | None = None
    cluster: ClusterView | None = None
    streams: TelemetryList | None = None
    events: Sequence[Told] | None = None
    summaries: Sequence[Told] | None = None
    """The summaries of kernels of the past minutes, oldest first."""
    alerts: AlertList | None = None
    alert_counts: AlertList | None = None
    """The numbers of alerts alone; it has no rows."""
    subject: str = ""
    """The subject of the parts below: a job's number, `node`, or `node:device`."""
    job: Mapping[str, Any] | None = None
    """The job with its trace summary, as `stoker job -o json` has it."""
    array: Sequence[JobView] | None = None
    """The jobs of an array in their order, those that run or went wrong before others if there are
    too many of them."""
    logs: Logs | None = None
    explain: ExplainView | None = None
    readings: ReadingsView | None = None
    topology: TopologyView | None = None
    heard: Mapping[str, int] = {}
    """The time (CLOCK_REALTIME here) at which a node's observation was seen to change last."""
    refused: Mapping[str, str] = {}
    """The reasons why parts are absent, by need."""


class ServerState(NamedTuple):
    """The server as it answers: since when it does not, why, and how long it was gone before."""

    lost_ns: int = 0
    """The time of the first failure in a row; 0 while it answers."""
    why: str = ""
    back_ns: int = 0
    """The time of its return; 0 if it was never lost."""
    gone_ns: int = 0
    """The length of its absence by then."""


A = TypeVar("A")
R = TypeVar("R")


def newest(fold: Callable[[A], R]) -> Callable[[A], R]:
    """Remember a fold's result for the newest argument, which is compared by identity."""
    kept: list[Any] = []

    def folded(argument: A) -> R:
        if not kept or kept[0] is not argument:
            kept[:] = (argument, fold(argument))
        result: R = kept[1]
        return result

    return folded


class NodeDevices(NamedTuple):
    """The devices of one node, added up; None where no device has a reading."""

    devices: tuple[DeviceView, ...]
    granted_milli: int
    busy: float | None
    power_w: float | None
    hottest_c: float | None
    sick: int
    """Devices that get no jobs or carry a warning."""
    sim: bool


@newest
def by_node(devices: Sequence[DeviceView]) -> dict[str, list[DeviceView]]:
    """Group the devices by their nodes."""
    found: dict[str, list[DeviceView]] = {}
    for device in devices:
        group = found.get(device.node)
        if group is None:
            group = found[device.node] = []
        group.append(device)
    return found


def added_up(rows: Sequence[DeviceView]) -> NodeDevices:
    """Add up devices; means and maxima are over those that have a reading."""
    busy = [d.busy_ratio for d in rows if d.busy_ratio is not None]
    power = [d.power_w for d in rows if d.power_w is not None]
    heat = [d.temperature_c for d in rows if d.temperature_c is not None]
    return NodeDevices(
        tuple(rows),
        sum(d.granted_milli for d in rows),
        sum(busy) / len(busy) if busy else None,
        sum(power) if power else None,
        max(heat) if heat else None,
        sum(bool(d.unavailable or d.cordoned or d.warning) for d in rows),
        any(d.sim for d in rows),
    )


@newest
def whole(devices: Sequence[DeviceView]) -> NodeDevices:
    """Add up all devices of the cluster."""
    return added_up(devices)


def stale_ns(answers: Answers, node: str, now_ns: int) -> int:
    """Return how long a node's observation has not changed if that is too long, else 0."""
    heard = answers.heard.get(node)
    age = now_ns - heard if heard else 0
    return age if age > STALE_NS else 0
