# SPDX-License-Identifier: Apache-2.0
"""The views `devices` and `node`: a row for each device of the cluster, or of one node.

Pure. A simulated device says SIM in its row, and a CPU says that it is no GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.mesh.wire.schema import DeviceView, NodeView
from stoker.native.row_forms import short_id
from stoker.tui.render import units
from stoker.tui.top import answers as parts
from stoker.tui.top.answers import Answers
from stoker.tui.top.lines import Line, Look, Piece, Tone, pairs, wrapped
from stoker.tui.top.table import ViewColumn
from stoker.tui.top.view import View
from stoker.tui.top.views import words

BAR = 8


def _bar(device: DeviceView, look: Look) -> str:
    return "" if device.busy_ratio is None else words.bar(device.busy_ratio, BAR, look)


def _jobs(device: DeviceView) -> str:
    more = "+" if len(device.jobs) > 2 else ""
    return ",".join(map(str, device.jobs[:2])) + more or "-"


COLUMNS: tuple[ViewColumn[DeviceView], ...] = (
    ViewColumn("DEVICE", 13, lambda d, look: short_id(d.id), order=lambda d: d.id),
    ViewColumn("NODE", 10, lambda d, look: f"{d.node}:{d.index}", leaves=5,
           order=lambda d: (d.node, d.index)),
    ViewColumn("KIND", 4, lambda d, look: words.kind(d), leaves=6, order=words.kind),
    ViewColumn("MODEL", 14, lambda d, look: d.model, leaves=3, grows=True, most=28,
               order=lambda d: d.model),
    ViewColumn("GIVEN", 5, lambda d, look: units.share(d.granted_milli), right=True, leaves=4,
           order=lambda d: d.granted_milli),
    ViewColumn("BUSY", 5, lambda d, look: words.percent(d.busy_ratio), right=True,
           order=lambda d: d.busy_ratio),
    ViewColumn("", BAR, _bar, leaves=2),
    ViewColumn("POWER", 7, lambda d, look: words.watts(d.power_w), right=True,
           order=lambda d: d.power_w),
    ViewColumn("TEMP", 5, lambda d, look: words.degrees(d.temperature_c), right=True,
           order=lambda d: d.temperature_c),
    ViewColumn("MEMORY", 8, lambda d, look: units.size(d.memory_bytes), right=True, leaves=1,
           order=lambda d: d.memory_bytes),
    ViewColumn("JOBS", 6, lambda d, look: _jobs(d)),
    ViewColumn("HEALTH", 12, lambda d, look: words.health(d), grows=True, order=words.health),
)  # fmt: skip

_INDEX = ViewColumn[DeviceView]("#", 2, lambda d, look: str(d.index), right=True,
                            order=lambda d: d.index)  # fmt: skip


def _tone(device: DeviceView, answers: Answers, look: Look) -> Tone:
    if device.unavailable or device.cordoned:
        return "bad"
    if parts.stale_ns(answers, device.node, look.now_ns) or device.warning:
        return "warn"
    return "" if device.granted_milli else "dim"


def _text(device: DeviceView) -> str:
    return (
        f"{device.id} {device.node}:{device.index} {words.kind(device)} {device.vendor} "
        f"{device.model} {words.health(device)}"
    )


def _of_node(answers: Answers, node: str) -> Sequence[DeviceView]:
    if answers.devices is None:
        return ()
    return parts.by_node(answers.devices).get(node, ())


def _node(answers: Answers, name: str) -> NodeView | None:
    return next((node for node in answers.nodes or () if node.node == name), None)


def _node_head(answers: Answers, name: str, look: Look) -> list[Line]:
    if answers.nodes is None:
        return [words.absent("nodes", answers.refused.get("nodes", ""))]
    node = _node(answers, name)
    if node is None:
        return [(Piece(f"there is no node {name}: `:cluster` lists them", "bad"),)]
    load = "-" if node.load_milli is None else f"{node.load_milli / 1000:.2f}"
    memory = f"{units.size(node.memory_free_bytes)} of {units.size(node.memory_bytes)} free"
    state: str = node.state
    if stale := parts.stale_ns(answers, name, look.now_ns):
        state += f", no news for {units.duration(stale // 10**9 * 10**9)}"
    lines = [
        pairs((("state", state), ("jobs", str(node.jobs)), ("load", load),
               ("CPUs", units.share(node.cpu_milli)), ("memory", memory))),
    ]  # fmt: skip
    why = node.evicted or node.drained
    lines += wrapped(f"{node.state} ", why, look.columns, "warn") if why else []
    if node.labels or node.taints:
        lines.append(pairs((("labels", ",".join(node.labels) or "-"),
                            ("taints", ",".join(node.taints) or "-"))))  # fmt: skip
    lines += wrapped("missing ", "; ".join(node.missing), look.columns)[:3] if node.missing else []
    return lines


def _devices_head(answers: Answers, subject: str, look: Look) -> list[Line]:
    if answers.devices is None:
        return [words.absent("devices", answers.refused.get("devices", ""))]
    return []


DEVICES = View(
    name="devices",
    title="Devices",
    says="all devices of all nodes",
    needs=("devices", "nodes"),
    items=lambda answers, subject: answers.devices or (),
    head=_devices_head,
    columns=COLUMNS,
    key=lambda device: f"{device.node}:{device.id}",
    text=_text,
    tone=_tone,
    empty="no node has a device",
    into="device",
    into_subject=lambda device: f"{device.node}:{device.id}",
    node=lambda device: device.node,
    device=lambda device: f"{device.node}:{device.id}",
)
NODE = View(
    name="node",
    title="Node",
    says="one node: its state and its devices",
    needs=("nodes", "devices"),
    subject="node",
    items=_of_node,
    head=_node_head,
    columns=(_INDEX, *(column for column in COLUMNS if column.title != "NODE")),
    key=lambda device: f"{device.node}:{device.id}",
    text=_text,
    tone=_tone,
    empty="it has no device",
    into="device",
    into_subject=lambda device: f"{device.node}:{device.id}",
    node=lambda device: device.node,
    device=lambda device: f"{device.node}:{device.id}",
)
