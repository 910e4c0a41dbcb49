# SPDX-License-Identifier: Apache-2.0
"""The public messages about nodes, devices and queues, and the base classes of all messages."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from stoker.scheduler import wire_names
from stoker.scheduler.nouns import Wanted

VERSION: Final = "stoker/v1"

Int = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""An integer of at most 64 bits."""
WAIT_S_MAX = 30.0
"""The longest time for which a request is held back; a client that waits longer repeats it."""
Wait = Annotated[float, msgspec.Meta(ge=0.0, le=WAIT_S_MAX)]
"""The seconds for which a request may be held back."""
QueueOrder: TypeAlias = wire_names.QueueOrder


# Frozen values hold no cycles. Without them the collector has little to look at in a list of
# thousands of devices, where it would take longer than the decoding.
class Message(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True, gc=False):
    """The base of all requests and replies; another schema version is refused."""

    schema: Literal["stoker/v1"] = VERSION


class ReplyMessage(Message, forbid_unknown_fields=False, frozen=True):
    """The base of all replies: a command passes over fields that a newer scheduler adds."""


class Part(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """The base of the parts of replies."""


class LogPosition(Part, frozen=True):
    """The last entry of the log that a reply reflects. A later reply of any scheduler has an equal
    or higher `index` unless it may be stale; `term` says in whose rule the entry was made."""

    term: int
    index: int


# --- requests -------------------------------------------------------------------------------------


class NodeRequest(Message, frozen=True):
    """`node.list` and `device.list`: the nodes whose names come after `after`, or their devices."""

    after: str = ""


class QueueRequest(Message, frozen=True):
    """`queue.list`."""

    stale: bool = False
    """True to read at once what a chosen scheduler has, which may lack the newest entries."""


class QueueSetRequest(Message, frozen=True):
    """`queue.set`: make or change a queue; a field that is not given keeps its value or gets the
    default."""

    queue: str
    parent: str | None = None
    weight: Int | None = None
    order: QueueOrder | None = None
    placement: Wanted | None = None


class QueueRemoveRequest(Message, frozen=True):
    """`queue.remove`: remove a queue that has no jobs and no child queues."""

    queue: str


class QueueQuotaRequest(Message, frozen=True):
    """`queue.quota`: set guarantee and limit in milli-shares; without both, it is removed."""

    queue: str
    model: str = ""
    """The device model; empty for the devices of all models together."""
    guaranteed_milli: Int = 0
    limit_milli: Int | None = None


class NodeLabelRequest(Message, frozen=True):
    """`node.label`: a new value for a key replaces the old one; `remove` names keys or labels."""

    node: str
    labels: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    cost: Int | None = None
    """The cost of the node, for the placement "cost"."""


class NodeReserveRequest(Message, frozen=True):
    """`node.reserve`: only jobs of the queue start on the node until the end; null ends it."""

    node: str
    queue: str = ""
    from_ns: Int = 0
    """The beginning in CLOCK_REALTIME; 0 is now."""
    until_ns: Int | None = None


class NodeDrainRequest(Message, frozen=True):
    """`node.drain`: the node gets no new jobs, and running ones go on; `drain` false ends it.

    With `move` those that may run again are stopped and run on other nodes: each gets its
    checkpoint signal, and `grace_s` later its end; without `grace_s` its own grace counts.
    """

    node: str
    drain: bool = True
    reason: str = ""
    move: bool = False
    grace_s: float | None = None


class NodeEvictRequest(Message, frozen=True):
    """`node.evict`: the host of the node is lost, so its jobs are given up once its lease must be
    over. The node stays in the cluster and may return.

    Refused for the only node, and for one whose agent is heard; `force` gives that one up as well.
    """

    node: str
    force: bool = False
    reason: str = ""


class NodeRemoveRequest(Message, frozen=True):
    """`node.remove`: the node leaves for good; its name may be another host's later.

    Refused while it has jobs or may get some. `force` gives its jobs up as an eviction does, once
    its lease must be over.
    """

    node: str
    force: bool = False
    reason: str = ""


class DeviceCordonRequest(Message, frozen=True):
    """`device.cordon`: the device (id or index) gets no new jobs, and running ones go on."""

    node: str
    device: str
    reason: str = ""


class DeviceUncordonRequest(Message, frozen=True):
    """`device.uncordon`: end a cordon; the node itself may still keep jobs off the device."""

    node: str
    device: str


class ClusterRequest(Message, frozen=True):
    """`cluster.get`."""

    stale: bool = False
    """True to read at once what a chosen scheduler has, which may lack the newest entries."""


class ClusterLimitsRequest(Message, frozen=True):
    """`cluster.limits`: change limits of the replicated state by name; others stay as they are.

    A limit below what the cluster uses now is refused.
    """

    limits: dict[str, Int]


class ClusterRemoveRequest(Message, frozen=True):
    """`cluster.remove`: the scheduler of a server leaves the roster and counts for no majority.

    Refused for the one that leads, and if fewer than a majority of the others answer or two stay.
    """

    server: str


class ClusterAdmitRequest(Message, frozen=True):
    """`cluster.admit`: the scheduler of a server that had left is in the roster again."""

    server: str


class ClusterUpgradeRequest(Message, frozen=True):
    """`cluster.upgrade`: raise the feature level to the newest one that any scheduler supports.

    Refused until every scheduler of the roster supports it.
    """


# --- replies --------------------------------------------------------------------------------------


NodeState = Literal["ready", "silent", "drained", "evicted"]


class NodeView(ReplyMessage, frozen=True):
    """One node: its report and its latest sample."""

    node: str
    state: NodeState
    """The state: `evicted` if it was given up and has not returned, `silent` without a sample for
    5 s, `drained` if it gets no new jobs."""
    boot_id: str
    cpu_milli: int
    memory_bytes: int
    devices: int
    jobs: int
    """The number of jobs that are placed here and not over."""
    missing: tuple[str, ...] = ()
    observation: int | None = None
    observed_ns: int | None = None
    load_milli: int | None = None
    memory_free_bytes: int | None = None
    labels: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    cost: int | None = None
    drained: str = ""
    """The reason why it is drained, or empty."""
    evicted: str = ""
    """The reason why it was given up, or empty."""
    reserved: Reservation | None = None
    moving: int | None = None
    """Jobs that its drain moves, and that have not ended here; None: the drain moves none."""
    staying: tuple[StayingJob, ...] = ()
    """Jobs that stay although its drain moves jobs, 16 at most."""
    staying_more: int = 0
    """The number of further ones."""


class StayingJob(Part, frozen=True):
    """A job that a drain does not move, and why."""

    job: int
    why: str


class Reservation(Part, frozen=True):
    """The time (CLOCK_REALTIME ns) in which a node is reserved for one queue."""

    queue: str
    from_ns: int
    until_ns: int


class NodeList(ReplyMessage, frozen=True):
    """Nodes, by name. If `next` is set, a request with `after` set to it continues."""

    nodes: tuple[NodeView, ...]
    next: str | None = None
    position: LogPosition | None = None
    """The position in the log; observations are newer and not in the log."""


class QuotaView(Part, frozen=True):
    """The milli-shares of one device model, or of all if it is empty, that a queue may use."""

    model: str
    guaranteed_milli: int
    limit_milli: int | None
    """The limit; null if there is none."""
    used_milli: int


class QueueView(Part, frozen=True):
    """One queue; its usage includes its child queues."""

    queue: str
    parent: str
    """The parent queue, or empty."""
    weight: int
    order: str
    placement: str
    depth: int
    used_milli: int
    cpu_used_milli: int
    memory_used_bytes: int
    device_ns: int
    """The device time used, decayed up to now."""
    pending: int
    live: int
    """The number of its own jobs, waiting or placed."""
    quotas: tuple[QuotaView, ...] = ()


class QueueList(ReplyMessage, frozen=True):
    """All queues, each after its parent."""

    queues: tuple[QueueView, ...]
    position: LogPosition | None = None
    """The position in the log that the reply reflects."""


class SchedulerView(Part, frozen=True):
    """One scheduler of the roster."""

    number: int
    public_key: str
    leads: bool
    server: str = ""
    """The name of its host, as its node has it."""


class LogCopy(Part, frozen=True):
    """One copy of the log."""

    server: str
    """The name of the broker's host."""
    current: bool
    """True if the broker is there and has the newest entries or nearly so."""
    behind: int = 0
    """The number of entries that it lacks."""


class LogView(Part, frozen=True):
    """The brokers that keep the log, as they said of themselves within the last seconds."""

    leader: str
    """The host of the broker through which entries go; empty while the brokers elect one, and where
    one broker alone keeps the log."""
    copies: tuple[LogCopy, ...]


class ClusterView(ReplyMessage, frozen=True):
    """The configuration of the cluster, as the log has it up to entry `seq`."""

    cluster: str
    genesis: str
    """The digest of the log's first configuration, in hexadecimal."""
    seq: int
    term: int
    schedulers: tuple[SchedulerView, ...]
    limits: dict[str, int]
    users: int
    formats: dict[str, int]
    """The formats of entries, snapshots and commands."""
    position: LogPosition | None = None
    """The position in the log that the reply reflects."""
    log: LogView | None = None
    """Null if the brokers do not answer now."""
    level: int = 1
    """The feature level of the cluster."""
    oldest: int = 1
    """The oldest feature level that the scheduler which answers supports, with `newest`."""
    newest: int = 1
    version: str = ""
    """The version of stoker of the scheduler which answers; empty for one that does not tell."""


class Done(ReplyMessage, frozen=True):
    """An administrator's request is in force; `changed` is false if it was before."""

    changed: bool


class DeviceView(ReplyMessage, frozen=True):
    """One device, its jobs and its latest sample; `absent` has the reason of each null field."""

    id: str
    node: str
    index: int
    vendor: str
    model: str
    kind: Literal["gpu", "cpu", "declared"]
    memory_bytes: int | None
    unavailable: str
    """The reason why its node lets no job run there, or empty."""
    sim: bool
    granted_milli: int
    jobs: tuple[int, ...]
    """The caller's jobs on it; administrators see all jobs."""
    busy_ratio: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    absent: dict[str, str] = {}
    cordoned: str = ""
    """The reason of its cordon, or empty."""
    warning: str = ""
    """A defect of a device that still takes jobs, or empty."""
    arch: str = ""
    """The generation of its chip, as `--arch` takes it; empty: not known, and so for the others."""
    compute: str = ""
    """Its CUDA compute capability, as `--min-compute` compares it."""
    driver: str = ""
    """The version of its driver, as `--driver` compares it."""
    profile: str = ""
    """Its partition profile, as `--partition-profile` takes it."""


class DeviceList(ReplyMessage, frozen=True):
    """Devices, by node and index, all of a node in one reply. If `next` is set, a request with
    `after` set to it continues."""

    devices: tuple[DeviceView, ...]
    next: str | None = None
