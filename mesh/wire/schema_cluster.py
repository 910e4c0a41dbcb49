# SPDX-License-Identifier: Apache-2.0
"""The public messages about the cluster: nodes, devices, queues; and what all messages share."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from stoker.scheduler import wire_names
from stoker.scheduler.nouns import Wanted

VERSION: Final = "stoker/v1"

Int = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""JSON has integers of any length; none here is longer than 64 bits."""
WAIT_S_MAX = 30.0
"""Longest a request may be held back; a client that waits longer asks again."""
Wait = Annotated[float, msgspec.Meta(ge=0.0, le=WAIT_S_MAX)]
"""Seconds for which a request may be held back."""
QueueOrder: TypeAlias = wire_names.QueueOrder


class Message(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Root of all requests and replies. Another schema than ours is refused by name."""

    schema: Literal["stoker/v1"] = VERSION


class Part(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Root of what lies inside a message."""


# --- requests -------------------------------------------------------------------------------------


class NodeRequest(Message, frozen=True):
    """`node.list` and `device.list`."""


class QueueRequest(Message, frozen=True):
    """`queue.list`."""


class QueueSetRequest(Message, frozen=True):
    """`queue.set`: make a queue, or change it; what is not given stays, or is the default."""

    queue: str
    parent: str | None = None
    weight: Int | None = None
    order: QueueOrder | None = None
    placement: Wanted | None = None


class QueueRemoveRequest(Message, frozen=True):
    """`queue.remove`: only one without jobs and without queues below it."""

    queue: str


class QueueQuotaRequest(Message, frozen=True):
    """`queue.quota`: guarantee and limit in milli-shares; neither drops the quota."""

    queue: str
    model: str = ""
    """Empty: devices of all models together."""
    guaranteed_milli: Int = 0
    limit_milli: Int | None = None


class NodeLabelRequest(Message, frozen=True):
    """`node.label`: a new value for a key replaces the old one; `remove` names keys or labels."""

    node: str
    labels: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    cost: Int | None = None
    """What the node costs, for the placement "cost"."""


class NodeReserveRequest(Message, frozen=True):
    """`node.reserve`: until the end only jobs of the queue start there; null ends it."""

    node: str
    queue: str = ""
    from_ns: Int = 0
    """CLOCK_REALTIME; 0: now."""
    until_ns: Int | None = None


class NodeDrainRequest(Message, frozen=True):
    """`node.drain`: no new jobs there; what runs goes on. Without `drain` it ends."""

    node: str
    drain: bool = True
    reason: str = ""


class DeviceCordonRequest(Message, frozen=True):
    """`device.cordon`: no new jobs on this device (id or index); what runs there goes on."""

    node: str
    device: str
    reason: str = ""


class DeviceUncordonRequest(Message, frozen=True):
    """`device.uncordon`: the end of that. What the node itself finds wrong with it stays."""

    node: str
    device: str


# --- replies --------------------------------------------------------------------------------------


class NodeView(Message, frozen=True):
    """One node: what it said of itself, and its latest sample."""

    node: str
    state: Literal["ready", "silent", "drained"]
    """`silent`: no sample for OBSERVATION_SILENT_S. `drained`: gets no new jobs."""
    boot_id: str
    cpu_milli: int
    memory_bytes: int
    devices: int
    jobs: int
    """Placed here and not over."""
    missing: tuple[str, ...] = ()
    observation: int | None = None
    observed_ns: int | None = None
    load_milli: int | None = None
    memory_free_bytes: int | None = None
    labels: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    cost: int | None = None
    drained: str = ""
    """Why it is drained."""
    reserved: Reservation | None = None


class Reservation(Part, frozen=True):
    """From one moment to the other (CLOCK_REALTIME ns) a node is for one queue."""

    queue: str
    from_ns: int
    until_ns: int


class NodeList(Message, frozen=True):
    """All nodes, by name."""

    nodes: tuple[NodeView, ...]


class QuotaView(Part, frozen=True):
    """Milli-shares of devices of one model, or of all with an empty one, that a queue may hold."""

    model: str
    guaranteed_milli: int
    limit_milli: int | None
    """null: no limit."""
    used_milli: int


class QueueView(Part, frozen=True):
    """One queue. What it uses counts the queues below it."""

    queue: str
    parent: str
    """Empty: none above it."""
    weight: int
    order: str
    placement: str
    depth: int
    used_milli: int
    cpu_used_milli: int
    memory_used_bytes: int
    device_ns: int
    """Device time, decayed up to now."""
    pending: int
    live: int
    """Its own jobs, waiting or placed."""
    quotas: tuple[QuotaView, ...] = ()


class QueueList(Message, frozen=True):
    """All queues, each after the one above it."""

    queues: tuple[QueueView, ...]


class Done(Message, frozen=True):
    """An administrator's request holds; `changed` false: it held already."""

    changed: bool


class DeviceView(Message, frozen=True):
    """One device: what it is, who holds it, and its latest sample; a null says why in `absent`."""

    id: str
    node: str
    index: int
    vendor: str
    model: str
    kind: Literal["gpu", "cpu", "declared"]
    memory_bytes: int | None
    unavailable: str
    """Why its node lets nothing run there, or empty."""
    sim: bool
    granted_milli: int
    jobs: tuple[int, ...]
    """Those of the caller; an administrator sees all."""
    busy_ratio: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    absent: dict[str, str] = {}
    cordoned: str = ""
    """Why an administrator keeps jobs away, or empty."""
    warning: str = ""
    """What is wrong with it although it takes jobs, or empty."""


class DeviceList(Message, frozen=True):
    """All devices, by node and index."""

    devices: tuple[DeviceView, ...]
