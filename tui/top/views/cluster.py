# SPDX-License-Identifier: Apache-2.0
"""The view `cluster`: the whole cluster in three lines, then each node with its heat strip.

Pure. A node whose observation does not change any more says since when.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

from stoker.mesh.wire.schema import DeviceView, JobView, NodeView
from stoker.scheduler.nouns import ENDED
from stoker.tui.render import units
from stoker.tui.top import answers as parts
from stoker.tui.top.answers import Answers, NodeDevices
from stoker.tui.top.lines import Line, Look, Piece, Tone, pairs
from stoker.tui.top.table import ViewColumn
from stoker.tui.top.view import View
from stoker.tui.top.views import words

STRIP = 10


class NodeRow:
    """One node; `heard_ns` is when its observation changed last.

    Its devices are added up when they are shown: a thousand nodes fit on no screen.
    """

    def __init__(self, node: NodeView, group: Sequence[DeviceView], heard_ns: int) -> None:
        self.node, self.group, self.heard_ns = node, group, heard_ns

    @functools.cached_property
    def devices(self) -> NodeDevices:
        """The devices of the node, added up."""
        return parts.added_up(self.group)


def _state(row: NodeRow, look: Look) -> str:
    age = look.now_ns - row.heard_ns if row.heard_ns else 0
    if age > parts.STALE_NS and row.node.state == "ready":
        return f"stale {units.duration(age // 10**9 * 10**9)}"
    return row.node.state


COLUMNS: tuple[ViewColumn[NodeRow], ...] = (
    ViewColumn(
        "NODE",
        14,
        lambda row, look: row.node.node,
        grows=True,
        most=32,
        order=lambda row: row.node.node,
    ),
    ViewColumn("STATE", 10, _state, order=lambda row: row.node.state),
    ViewColumn("DEVICES", STRIP, lambda row, look: words.strip(row.devices.devices, look, STRIP)),
    ViewColumn(
        "GIVEN",
        8,
        lambda row, look: _given(row),
        right=True,
        leaves=5,
        order=lambda row: row.devices.granted_milli,
    ),
    ViewColumn(
        "BUSY",
        5,
        lambda row, look: words.percent(row.devices.busy),
        right=True,
        order=lambda row: row.devices.busy,
    ),
    ViewColumn(
        "POWER",
        8,
        lambda row, look: words.watts(row.devices.power_w),
        right=True,
        leaves=4,
        order=lambda row: row.devices.power_w,
    ),
    ViewColumn(
        "TEMP",
        5,
        lambda row, look: words.degrees(row.devices.hottest_c),
        right=True,
        leaves=3,
        order=lambda row: row.devices.hottest_c,
    ),
    ViewColumn(
        "JOBS",
        5,
        lambda row, look: units.number(row.node.jobs),
        right=True,
        leaves=2,
        order=lambda row: row.node.jobs,
    ),
    ViewColumn(
        "LOAD",
        6,
        lambda row, look: _load(row),
        right=True,
        leaves=1,
        order=lambda row: row.node.load_milli,
    ),
    ViewColumn(
        "MEM FREE",
        9,
        lambda row, look: units.size(row.node.memory_free_bytes),
        right=True,
        leaves=1,
        order=lambda row: row.node.memory_free_bytes,
    ),
    ViewColumn("NOTE", 20, lambda row, look: _note(row.node), leaves=1, grows=True),
)


@parts.newest
def _rows(answers: Answers) -> list[NodeRow]:
    devices = parts.by_node(answers.devices) if answers.devices is not None else {}
    return [
        NodeRow(node, devices.get(node.node, ()), answers.heard.get(node.node, 0))
        for node in answers.nodes or ()
    ]


def _given(row: NodeRow) -> str:
    total = len(row.devices.devices)
    return f"{units.share(row.devices.granted_milli)}/{total}" if total else "-"


def _load(row: NodeRow) -> str:
    load = row.node.load_milli
    return "-" if load is None else f"{load / 1000:.2f}"


def _note(node: NodeView) -> str:
    told = [
        node.evicted and f"evicted: {node.evicted}",
        node.drained and f"drained: {node.drained}",
    ]
    if node.state == "silent":
        told.append("no observation for 5 s")
    if node.reserved is not None:
        told.append(f"reserved for {node.reserved.queue}")
    if node.missing:
        told.append(f"{len(node.missing)} sources missing")
    return "; ".join(filter(None, told))


def _tone(row: NodeRow, answers: Answers, look: Look) -> Tone:
    if row.node.state in ("silent", "evicted"):
        return "bad"
    stale = row.heard_ns and look.now_ns - row.heard_ns > parts.STALE_NS
    return "warn" if stale or row.node.state == "drained" else ""


def _head(answers: Answers, subject: str, look: Look) -> list[Line]:
    if answers.nodes is None:
        return [words.absent("nodes", answers.refused.get("nodes", ""))]
    lines = [_devices_line(answers, look), _jobs_line(answers)]
    return [*lines, *_alarms(answers, look)]


def _devices_line(answers: Answers, look: Look) -> Line:
    if answers.devices is None:
        return words.absent("devices", answers.refused.get("devices", ""))
    found = parts.whole(answers.devices)
    busy = words.bar(found.busy, 10, look)
    return (
        Piece("devices ", "dim"),
        Piece(units.number(len(found.devices))),
        Piece("  given ", "dim"),
        Piece(units.share(found.granted_milli)),
        Piece("  busy ", "dim"),
        Piece(f"{busy:<10} " if busy != "-" else ""),
        Piece(words.percent(found.busy)),
        Piece("  power ", "dim"),
        Piece(words.watts(found.power_w)),
        Piece("  hottest ", "dim"),
        Piece(words.degrees(found.hottest_c)),
    )


@parts.newest
def _job_counts(jobs: Sequence[JobView]) -> tuple[int, int, int]:
    counts: Counter[str] = Counter()
    for job in jobs:
        counts.update(words.states(job))
    running = counts["running"] + counts["stopping"]
    late = sum(bool(job.troubles) for job in jobs if job.state not in ENDED)
    return running, counts["starting"] + counts["pending"], late


def _jobs_line(answers: Answers) -> Line:
    if answers.jobs is None:
        return words.absent("jobs", answers.refused.get("jobs", ""))
    running, waiting, _ = _job_counts(answers.jobs)
    more = "+" if answers.jobs_cut else ""
    return pairs(
        (
            ("nodes", units.number(len(answers.nodes or ()))),
            ("running", f"{running:,}{more}"),
            ("waiting", f"{waiting:,}{more}"),
        )
    )


@parts.newest
def _down(nodes: Sequence[NodeView]) -> int:
    return sum(node.state in ("silent", "evicted") for node in nodes)


def _alarms(answers: Answers, look: Look) -> list[Line]:
    """The things that need a person, in one line; nothing if nothing does."""
    down = _down(answers.nodes) if answers.nodes is not None else 0
    sick = parts.whole(answers.devices).sick if answers.devices is not None else 0
    held = _job_counts(answers.jobs)[2] if answers.jobs is not None else 0
    told = [
        f"{count:,} {one if count == 1 else many}"
        for count, one, many in (
            (down, "node does not report", "nodes do not report"),
            (sick, "device is sick or cordoned", "devices are sick or cordoned"),
            (held, "job waits for a rank of its own", "jobs wait for ranks of their own"),
        )
        if count
    ]
    return [(Piece("! " + "; ".join(told), "warn"),)] if told else []


VIEW = View(
    name="cluster",
    title="Cluster",
    says="all nodes, with a mark for each device: load, heat, health",
    needs=("nodes", "devices", "jobs"),
    items=lambda answers, subject: _rows(answers),
    head=_head,
    columns=COLUMNS,
    key=lambda row: row.node.node,
    text=lambda row: (
        f"{row.node.node} {row.node.state} {' '.join(row.node.labels)} {_note(row.node)}"
    ),
    tone=_tone,
    empty="no node has reported",
    into="node",
    into_subject=lambda row: row.node.node,
    node=lambda row: row.node.node,
    object=lambda row: {"node": row.node, "devices": row.group},
)
