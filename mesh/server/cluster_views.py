# SPDX-License-Identifier: Apache-2.0
"""The public views of nodes, devices and queues, made from the replicated state.

Pure. Owns the translation of the core's ids of labels, models and queues into names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import msgspec

from stoker import __version__
from stoker.mesh.log import roster_change
from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.works.fence import FENCE_ID, FENCE_TAINT
from stoker.mesh.server import node_moves
from stoker.mesh.wire import schema
from stoker.mesh.wire.schema_cluster import NodeState
from stoker.native.errors import Unavailable
from stoker.scheduler.book import Book, Eviction
from stoker.scheduler.effects import NodeInfo, QueueInfo, QuotaInfo
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import DeviceSample, NodeReport
from stoker.scheduler.policies import Order, Placement
from stoker.scheduler.records import NO_LIMIT

SILENT_NS = 5_000_000_000
"""A node without a sample for this long is shown as silent."""
NODES_AT_ONCE = 128
"""The most nodes in one reply, which bounds the time of one request."""
PAGE_BYTES_MAX = schema.REPLY_BYTES_MAX - 8192
"""The most bytes of the rows of one reply; one node's rows are sent whatever they take."""
Row = TypeVar("Row", schema.NodeView, schema.DeviceView)


def position(replica: Replica) -> schema.LogPosition:
    """Return the position in the log that the state of a replica reflects."""
    return schema.LogPosition(term=replica.state.term, index=replica.state.index)


def node_list(replica: Replica, now_ns: int, after: str = "") -> schema.NodeList:
    """Return as many nodes after `after`, by name, as one reply may have."""
    rows, following = _page(
        replica.state.book, after, lambda report: [_node(replica, report, now_ns)]
    )
    return schema.NodeList(nodes=tuple(rows), next=following, position=position(replica))


def _page(
    book: Book, after: str, rows_of: Callable[[NodeReport], list[Row]]
) -> tuple[list[Row], str | None]:
    """Return the rows of the nodes after `after`, and the last of these nodes if there are more.

    The rows of one node stay together, so that a page ends where a node ends.
    """
    rows: list[Row] = []
    last, size = "", 0
    for count, name in enumerate(sorted(name for name in book.nodes if name > after)):
        found = rows_of(book.nodes[name])
        size += sum(len(schema.encode(row)) for row in found)
        if count == NODES_AT_ONCE or (last and size > PAGE_BYTES_MAX):
            return rows, last
        rows += found
        last = name
    return rows, None


def _node(replica: Replica, report: NodeReport, now_ns: int) -> schema.NodeView:
    book, number = replica.state.book, name_id(report.node)
    sample, _ = replica.nodes.observations.get(report.node, (None, 0))
    info = replica.state.core.node(number)
    silent = now_ns - heard_ns(replica, report.node) >= SILENT_NS
    drained = "; ".join(filter(None, (book.drained.get(report.node, ""), report.drain)))
    evicted = book.evicted.get(report.node)
    labels = replica.state.core.labels(number)
    leaving = node_moves.leaving(report.node, replica.state)
    return schema.NodeView(
        node=report.node,
        state=_state(silent=silent, drained=drained, evicted=evicted),
        boot_id=report.boot_id,
        cpu_milli=report.cpu_milli,
        memory_bytes=report.memory_bytes,
        devices=sum(not device.gone for device in report.devices),
        jobs=info.tasks if info is not None else 0,
        missing=report.missing,
        observation=sample.id if sample is not None else None,
        observed_ns=sample.t_ns if sample is not None else None,
        load_milli=sample.load_milli if sample is not None else None,
        memory_free_bytes=sample.memory_free_bytes if sample is not None else None,
        labels=tuple(sorted(book.word(x.label) for x in labels if not x.taint and not x.cost)),
        taints=tuple(sorted(_taint(book, x.label) for x in labels if x.taint)),
        cost=next((x.value for x in labels if x.cost), None),
        drained=drained,
        evicted=evicted.why if evicted is not None else "",
        reserved=_reserved(replica, info),
        moving=leaving.moving if leaving is not None else None,
        staying=leaving.staying if leaving is not None else (),
        staying_more=leaving.staying_more if leaving is not None else 0,
    )


def heard_ns(replica: Replica, node: str) -> int:
    """Return when a node was heard last (CLOCK_BOOTTIME): the hello of an agent that has just
    started counts like a sample."""
    _, sampled_ns = replica.nodes.observations.get(node, (None, 0))
    return max(sampled_ns, replica.nodes.greeted.get(node, 0))


def _state(*, silent: bool, drained: str, evicted: Eviction | None) -> NodeState:
    """Return the state of a node in one word; the first that is true is the most important."""
    if evicted is not None:
        return "evicted"
    return "silent" if silent else "drained" if drained else "ready"


def _taint(book: Book, number: int) -> str:
    return FENCE_TAINT if number == FENCE_ID else book.word(number)


def _reserved(replica: Replica, info: NodeInfo | None) -> schema.Reservation | None:
    if info is None or not info.reserve_until_ns:
        return None
    return schema.Reservation(
        queue=replica.state.book.queue_name(info.reserve_queue),
        from_ns=info.reserve_from_ns,
        until_ns=info.reserve_until_ns,
    )


# --- queues ---------------------------------------------------------------------------------------


def cluster_view(
    replica: Replica, homes: Mapping[int, str], log: schema.LogView | None
) -> schema.ClusterView:
    """Return the configuration of the cluster; Unavailable before the log's first entry. `homes`:
    the host of each scheduler, by number; `log`: the brokers that keep the log."""
    state, config = replica.state, replica.state.config
    if config is None:
        raise Unavailable("the scheduler has not read the log's first entry yet")
    leader = state.core.leader
    return schema.ClusterView(
        cluster=state.cluster,
        genesis=config.genesis.hex(),
        seq=state.seen,
        term=state.term,
        schedulers=tuple(
            schema.SchedulerView(
                number=member.number,
                public_key=member.public_key,
                leads=member.number == leader,
                server=homes.get(member.number, ""),
            )
            for member in roster_change.present(config.schedulers)
        ),
        limits=config.limits._asdict(),
        users=len(config.accounts),
        formats=msgspec.structs.asdict(config.formats),
        position=position(replica),
        log=log,
        level=config.level,
        oldest=replica.settings.supports.oldest,
        newest=replica.settings.supports.newest,
        version=__version__,
    )


def queue_list(replica: Replica, real_ns: int) -> schema.QueueList:
    """Return all queues, each after its parent; usage is decayed up to `real_ns`."""
    core = replica.state.core
    found = [core.queue(number, real_ns) for number in core.queues()]
    by_parent: dict[int, list[QueueInfo]] = {}
    for info in found:
        if info is not None:
            above = info.parent if info.queue else 0
            by_parent.setdefault(above, []).append(info)
    roots = by_parent.pop(0, [])
    return schema.QueueList(
        queues=tuple(_queue(replica, info) for info in _below(replica, roots, by_parent)),
        position=position(replica),
    )


def _below(
    replica: Replica, infos: list[QueueInfo], by_parent: dict[int, list[QueueInfo]]
) -> Iterator[QueueInfo]:
    for info in sorted(infos, key=lambda i: (i.queue != 0, replica.state.book.queue_name(i.queue))):
        yield info
        yield from _below(replica, by_parent.get(info.queue, []) if info.queue else [], by_parent)


def _queue(replica: Replica, info: QueueInfo) -> schema.QueueView:
    book = replica.state.book
    return schema.QueueView(
        queue=book.queue_name(info.queue),
        parent=book.queue_name(info.parent) if info.parent else "",
        weight=info.weight,
        order=Order(info.order).name.lower().replace("_", "-"),
        placement=Placement(info.placement or Placement.BEST).name.lower().replace("_", "-"),
        depth=info.depth,
        used_milli=info.used_milli,
        cpu_used_milli=info.cpu_used,
        memory_used_bytes=info.memory_used,
        device_ns=info.usage_ns,
        pending=info.pending,
        live=info.live,
        quotas=tuple(_quota(replica, quota) for quota in info.quotas),
    )


def _quota(replica: Replica, quota: QuotaInfo) -> schema.QuotaView:
    return schema.QuotaView(
        model=replica.state.book.word(quota.model) if quota.model else "",
        guaranteed_milli=quota.guaranteed_milli,
        limit_milli=None if quota.limit_milli == NO_LIMIT else quota.limit_milli,
        used_milli=quota.used_milli,
    )


# --- devices --------------------------------------------------------------------------------------


def device_list(replica: Replica, user: str | None, after: str = "") -> schema.DeviceList:
    """Return as many devices of nodes after `after`, by node and index, as one reply may have, with
    the jobs of `user`, or of all users if None."""
    rows, following = _page(
        replica.state.book, after, lambda report: _devices(replica, report, user)
    )
    return schema.DeviceList(devices=tuple(rows), next=following)


def _devices(replica: Replica, report: NodeReport, user: str | None) -> list[schema.DeviceView]:
    ledger = replica.state.core.devices(name_id(report.node))
    holders = _holders(replica, report.node, user)
    sample, _ = replica.nodes.observations.get(report.node, (None, 0))
    samples = {row.id: row for row in sample.devices} if sample is not None else {}
    rows: list[schema.DeviceView] = []
    for index, device in enumerate(report.devices):
        if device.gone and index not in holders:
            continue
        seen = samples.get(device.id, DeviceSample(device.id, absent={"sample": "none yet"}))
        rows.append(
            schema.DeviceView(
                id=device.id,
                node=report.node,
                index=index,
                vendor=device.vendor,
                model=device.model,
                kind=device.kind,
                memory_bytes=device.memory_bytes,
                unavailable=device.unavailable,
                sim=device.sim,
                granted_milli=ledger[index].used_milli if index < len(ledger) else 0,
                jobs=tuple(holders.get(index, ())),
                busy_ratio=seen.busy_ratio,
                power_w=seen.power_w,
                temperature_c=seen.temperature_c,
                absent=seen.absent,
                cordoned=replica.state.book.cordoned.get((report.node, device.id), ""),
                warning=device.warning,
                arch=device.arch,
                compute=device.compute,
                driver=device.driver,
                profile=device.profile,
            )
        )
    return rows


def why_unavailable(book: Book, node: str, index: int) -> str:
    """Return a text such as " (pocl-0: cordoned: a new fan)", or an empty string."""
    report = book.nodes.get(node)
    if report is None or index >= len(report.devices):
        return ""
    device = report.devices[index]
    cordoned = book.cordoned.get((node, device.id), "")
    reasons = [f"cordoned: {cordoned}"] if cordoned else []
    if device.unavailable:
        reasons.append(device.unavailable)
    return f" ({device.id}: {'; '.join(reasons)})" if reasons else ""


def _holders(replica: Replica, node: str, user: str | None) -> dict[int, list[int]]:
    """Return the jobs on each device index, of one user or of all users."""
    holders: dict[int, list[int]] = {}
    for task in replica.state.core.node_tasks(name_id(node)):
        record = replica.state.book.live(task.job)
        if record is None or user not in (None, record.owner.user):
            continue
        for share in task.shares:
            holders.setdefault(share.index, []).append(task.job)
    return holders
