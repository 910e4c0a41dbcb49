# SPDX-License-Identifier: Apache-2.0
"""The requests of administrators: queues, nodes with labels and drains, cordons, limits.

Pure: a request and the state in, requests for the core and the names to log with them out.
Guarantees that each request may be repeated: a setting that is in force already is no error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.mesh.log.entry import (
    CordonBlob,
    DrainBlob,
    LimitsBlob,
    MoveBlob,
    NamesBlob,
    QueueBlob,
    Setting,
)
from stoker.mesh.replica import cluster_limits as limit_changes
from stoker.mesh.replica import moves
from stoker.mesh.replica.events import Admin, NodeEviction, NodeRemoval
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works import core_request, node_requests, work
from stoker.mesh.wire import schema
from stoker.native.errors import BadRequest, NotFound, Refused
from stoker.scheduler import records
from stoker.scheduler.book import NAMES_MAX
from stoker.scheduler.names import (
    DEFAULT_QUEUE,
    check_label,
    check_name,
    label_key,
    name_id,
    queue_id,
)
from stoker.scheduler.policies import FIRST_ORDER, Order, Placement

FAIR_SINCE = 4
"""The feature level from which a queue may have the order fair."""
WEIGHT_MAX = 1_000_000
MILLI_MAX = 1 << 40
REASON_CHARS_MAX = 200
GRACE_S_MAX = 3600
"""The longest grace of a drain that moves jobs: that of a job."""
CORDONS_MAX = 4096
CHANGES_MAX = 32
"""The most labels, taints and removals in one request."""


def queue_set(
    token: Any, request: schema.QueueSetRequest, state: ReplicaState, now_ns: int
) -> Admin:
    """Make or change a queue; fields that are not given stay as they are."""
    number = known_name(request.queue, state)
    old = state.core.queue(number, now_ns)
    if request.parent is not None:
        parent = _there(request.parent, state, now_ns) if request.parent else 0
    else:
        parent = old.parent if old is not None else 0
    weight = request.weight if request.weight is not None else old.weight if old else 1
    if not 1 <= weight <= WEIGHT_MAX:
        raise BadRequest(f"weight is {weight}, from 1 to {WEIGHT_MAX}")
    order = _order(request.order) if request.order else old.order if old else FIRST_ORDER
    if order == Order.FAIR and state.level < FAIR_SINCE:
        raise Refused(
            f"no queue has the order fair at feature level {state.level} of this cluster",
            hint=f"`stoker cluster upgrade` raises the level; from {FAIR_SINCE} on it may",
        )
    if request.placement is not None:
        placement = int(Placement[request.placement.upper().replace("-", "_") or "QUEUE"])
    else:
        placement = old.placement if old is not None else Placement.QUEUE
    command = records.QueueSet(number, parent, weight, order, placement)
    return Admin(token, (command,), _names(number, request.queue))


def queue_remove(
    token: Any, request: schema.QueueRemoveRequest, state: ReplicaState, now_ns: int
) -> Admin:
    """Remove a queue, if it exists."""
    number = known_name(request.queue, state)
    if number == 0:
        raise BadRequest(f"the queue {DEFAULT_QUEUE!r} cannot be removed")
    return Admin(token, (records.QueueSet(number, remove=True),), _names(number, request.queue))


def queue_quota(
    token: Any, request: schema.QueueQuotaRequest, state: ReplicaState, now_ns: int
) -> Admin:
    """Set how much of one device model, or of all, a queue is guaranteed and may use."""
    number = _there(request.queue, state, now_ns)
    limit = records.NO_LIMIT if request.limit_milli is None else request.limit_milli
    for what, value in (("guaranteed", request.guaranteed_milli), ("limit", request.limit_milli)):
        if value is not None and not 0 <= value <= MILLI_MAX:
            raise BadRequest(f"{what}_milli is {value}, from 0 to {MILLI_MAX}")
    model = 0
    settings: tuple[Setting, ...] = ()
    if request.model:
        known = core_request.known_models(state.book.nodes.values())
        meant = core_request.models_meant((request.model,), known)
        if len(meant) > 1:
            raise BadRequest(f"{request.model!r} may be {' or '.join(meant)}: name one")
        model, settings = name_id(meant[0]), (_words(meant, state),)
    quota = records.QuotaSet(number, model, request.guaranteed_milli, limit)
    return Admin(token, (quota,), settings)


def node_label(
    token: Any, request: schema.NodeLabelRequest, state: ReplicaState, now_ns: int
) -> Admin:
    """Set labels and taints of a node; each replaces other values of its key."""
    number = _node(request.node, state)
    if len(request.labels) + len(request.taints) + len(request.remove) > CHANGES_MAX:
        raise BadRequest(f"at most {CHANGES_MAX} labels at once")
    new = [check_label(label) for label in request.labels]
    taints = [check_label(label, "taint") for label in request.taints]
    keys = {label_key(label) for label in (*new, *taints)}
    going = {*request.remove}
    gone: list[records.Request] = []
    for label in state.core.labels(number):
        word = state.book.word(label.label)
        replaced = label_key(word) in keys and word not in (*new, *taints)
        if word and (replaced or word in going or label_key(word) in going):
            gone.append(records.NodeLabel(number, label.label, clear=True))
    put: list[records.Request] = [node_requests.label_set(number, label) for label in new]
    put += [records.NodeLabel(number, name_id(label), taint=True) for label in taints]
    if request.cost is not None:
        if not 0 <= request.cost <= MILLI_MAX:
            raise BadRequest(f"cost is {request.cost}, from 0 to {MILLI_MAX}")
        put.append(
            records.NodeLabel(number, name_id(node_requests.COST_LABEL), request.cost, cost=True)
        )
    return Admin(token, (*gone, *put), (_words((*new, *taints), state),))


def node_reserve(
    token: Any, request: schema.NodeReserveRequest, state: ReplicaState, now_ns: int
) -> Admin:
    """Reserve a node for one queue for a time, or end its reservation."""
    number = _node(request.node, state)
    if request.until_ns is None:
        return Admin(token, (records.NodeReserve(number),), ())
    since = request.from_ns or now_ns
    if not 0 <= since < request.until_ns:
        raise BadRequest(f"a reservation from {since} to {request.until_ns} is not a span of time")
    if request.until_ns <= now_ns:
        raise BadRequest("the reservation is already over")
    queue = _there(request.queue, state, now_ns)
    return Admin(token, (records.NodeReserve(number, queue, since, request.until_ns),), ())


def node_drain(
    token: Any, request: schema.NodeDrainRequest, state: ReplicaState, now_ns: int, by: str = ""
) -> Admin:
    """Drain a node, so that it gets no new jobs, or undrain it; `by` is who wants it."""
    number = _node(request.node, state)
    check_reason(request.reason)
    _check_move(request, state)
    if request.drain:
        why = request.reason or moves.UNSAID
        down = records.NodeDown(number, reason=work.DRAINED)
        moved = (MoveBlob(request.node, request.grace_s, by),) if request.move else ()
        return Admin(token, (down,), (DrainBlob(request.node, why), *moved))
    if request.node not in state.book.drained:
        return Admin(token, (), ())
    node = request.node

    def up(later: ReplicaState) -> tuple[records.Request, ...]:
        report = later.book.nodes.get(node)
        if report is None:  # it was removed since
            return ()
        down = work.kept_down(report, later, is_drained=bool(report.drain))
        return (*node_requests.node_requests(report, later), *down)

    return Admin(token, up(state), (DrainBlob(node, ""),), up)


def _check_move(request: schema.NodeDrainRequest, state: ReplicaState) -> None:
    """Raise for a drain that cannot move jobs as it says."""
    if not request.move and request.grace_s is None:
        return
    if not (request.drain and request.move):
        raise BadRequest("a grace is that of a drain that moves jobs", hint="give move as well")
    if request.grace_s is not None and not 0 <= request.grace_s <= GRACE_S_MAX:
        raise BadRequest(f"grace_s is {request.grace_s:g}, from 0 to {GRACE_S_MAX}")
    if state.level < moves.SINCE:
        raise Refused(
            f"no drain moves jobs at feature level {state.level} of this cluster",
            hint=f"`stoker cluster upgrade` raises the level; from {moves.SINCE} on it does",
        )


def node_remove(
    token: Any, request: schema.NodeRemoveRequest, state: ReplicaState, now_ns: int
) -> NodeRemoval:
    """Take a node out of the cluster for good; `mesh/replica/watch/node_watch.py` says when."""
    return NodeRemoval(token, request.node, request.reason or "on request", request.force)


def node_evict(
    token: Any, request: schema.NodeEvictRequest, state: ReplicaState, now_ns: int, by: str = ""
) -> NodeEviction:
    """Give a lost node up, by the word of `by`; `mesh/replica/watch/node_watch.py` says when."""
    check_reason(request.reason)
    why = f"an operator: {by}: {request.reason or 'on request'}"
    return NodeEviction(token, request.node, why, request.force)


def device_cordon(
    token: Any, request: schema.DeviceCordonRequest, state: ReplicaState, now_ns: int
) -> Admin:
    """Cordon a device: it gets no new jobs, and running ones go on.

    Without a new reason, an earlier one stays.
    """
    node, device = request.node, _device(request.node, request.device, state)
    check_reason(request.reason)
    before = state.book.cordoned.get((node, device))
    why = request.reason or before or "on request"
    if before == why:
        return Admin(token, (), ())
    if before is None and len(state.book.cordoned) >= CORDONS_MAX:
        raise Refused(f"{CORDONS_MAX} devices are cordoned, which is the limit")
    return _cordon(token, CordonBlob(node, device, why), state)


def device_uncordon(
    token: Any, request: schema.DeviceUncordonRequest, state: ReplicaState, now_ns: int
) -> Admin:
    """Uncordon a device; it still gets no jobs if its node reports it as unavailable."""
    node = request.node
    if (node, request.device) in state.book.cordoned:  # the device may be gone since
        device = request.device
    else:
        device = _device(node, request.device, state)
    if (node, device) not in state.book.cordoned:
        return Admin(token, (), ())
    return _cordon(token, CordonBlob(node, device, ""), state)


def cluster_limits(
    token: Any, request: schema.ClusterLimitsRequest, state: ReplicaState, now_ns: int
) -> Admin:
    """Change limits of the replicated state; Refused if what there is does not fit."""
    limits = limit_changes.changed(state.limits, request.limits)
    if limits == state.limits:
        return Admin(token, (), ())
    state.core.resized(limits)
    return Admin(token, (), (LimitsBlob(limits),))


def _cordon(token: Any, blob: CordonBlob, state: ReplicaState) -> Admin:
    def requests(later: ReplicaState) -> tuple[records.Request, ...]:
        report = later.book.nodes.get(blob.node)
        ids = [device.id for device in report.devices] if report is not None else []
        if report is None or blob.device not in ids:
            return ()
        return (node_requests.device_set(report, ids.index(blob.device), not blob.why),)

    return Admin(token, requests(state), (blob,), requests)


def _device(node: str, name: str, state: ReplicaState) -> str:
    """Return the id of the device that is named by id or index."""
    _node(node, state)
    ids = [device.id for device in state.book.nodes[node].devices]
    if name in ids:
        return name
    if name.isascii() and name.isdigit() and len(name) < 4 and int(name) < len(ids):
        return ids[int(name)]
    hint = f"`stoker devices` names them: {', '.join(ids[:4]) or 'none'}"
    raise NotFound(f"node {node} has no device {name[:80]!r}", hint=hint)


def check_reason(reason: str) -> None:
    """Raise BadRequest for a reason that cannot be shown."""
    if len(reason) > REASON_CHARS_MAX or not reason.isprintable():
        raise BadRequest(f"reason has at most {REASON_CHARS_MAX} printable characters")


LOST = NodeEviction | NodeRemoval
"""The events by which an administrator calls a node lost; their reason names who does."""
HANDLERS: dict[tuple[str, str], Callable[[Any, Any, ReplicaState, int], Admin | LOST]] = {
    ("queue", "set"): queue_set,
    ("queue", "remove"): queue_remove,
    ("queue", "quota"): queue_quota,
    ("node", "label"): node_label,
    ("node", "reserve"): node_reserve,
    ("node", "drain"): node_drain,
    ("node", "evict"): node_evict,
    ("node", "remove"): node_remove,
    ("device", "cordon"): device_cordon,
    ("device", "uncordon"): device_uncordon,
    ("cluster", "limits"): cluster_limits,
}
"""The handler of each (noun, verb): handler(token, request, state, now_ns) with CLOCK_REALTIME."""


def known_name(name: str, state: ReplicaState) -> int:
    """Return the id of a queue name; Refused if another queue's name has the same id."""
    number = queue_id(check_name(name, "queue"))
    if number and state.book.queues.get(number, name) != name:
        raise Refused(
            f"{name!r} and {state.book.queues[number]!r} have the same id: choose another name"
        )
    return number


def _there(name: str, state: ReplicaState, now_ns: int) -> int:
    number = known_name(name, state)
    if state.core.queue(number, now_ns) is None:
        raise NotFound(f"there is no queue {name!r}", hint="`stoker queue list` names them")
    return number


def _node(name: str, state: ReplicaState) -> int:
    if name not in state.book.nodes:
        raise NotFound(f"there is no node {name[:80]!r}", hint="`stoker nodes` names them")
    return name_id(name)


def _order(name: str) -> int:
    return Order[name.upper().replace("-", "_")]


def _names(number: int, name: str) -> tuple[Setting, ...]:
    return (QueueBlob(number, name),) if number else ()


def _words(names: tuple[str, ...], state: ReplicaState) -> NamesBlob:
    if not state.book.room_for_names(names):
        raise Refused(f"{NAMES_MAX} labels and models were named, which is the limit")
    return NamesBlob(names)
