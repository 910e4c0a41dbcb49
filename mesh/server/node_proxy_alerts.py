# SPDX-License-Identifier: Apache-2.0
"""Queries about alerts, which only their nodes can answer: what fires there, and who has seen it.

Owns who may see what: alerts name the jobs of all users, so only administrators read them; how many
fire, everybody may know. A node that has none, or is silent, is not asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import msgspec

from stoker.mesh.replica.boot_clock import boot_ns
from stoker.mesh.replica.replica import Replica
from stoker.mesh.server.cluster_views import SILENT_NS
from stoker.mesh.wire import queries, schema
from stoker.mesh.wire.queries import AlertsQuery, AlertsReply
from stoker.mesh.wire.schema_alerts import (
    AlertAckRequest,
    AlertList,
    AlertRequest,
    AlertView,
    NodeAlerts,
    alert_order,
)
from stoker.native.errors import Denied, NotFound, StokerError, Unavailable
from stoker.scheduler.nouns import AlertCounts

ANSWER_S = 1.0
"""A node may take this long to answer about its alerts."""
COUNT_MAX = 1 << 20
"""The most alerts that a node is believed to have."""
_LIST_BYTES_MAX = schema.REPLY_BYTES_MAX - 16_384

QueryNode = Callable[[str, str, bytes, float], Awaitable[bytes]]
_alerts = msgspec.json.Decoder(NodeAlerts)


async def listed(
    replica: Replica, query_node: QueryNode, request: AlertRequest, *, admin: bool
) -> AlertList:
    """Return the alerts of all nodes, or only how many fire; Denied for users who may not."""
    if not (request.counts or admin):
        raise Denied(
            "only an administrator reads the alerts of a cluster",
            hint="`stoker alerts` has those of a node of yours",
        )
    counts = dict(_counted(replica))
    firing = sum(each.firing for each, _ in counts.values())
    unseen = sum(each.unseen for each, _ in counts.values())
    if request.counts:
        return AlertList(firing=firing, unseen=unseen)
    now_ns = boot_ns()
    having = [node for node, (each, _) in counts.items() if each.firing or each.resolved]
    silent = {node: "it is silent" for node in having if now_ns - counts[node][1] >= SILENT_NS}
    asked = [node for node in having if node not in silent]
    found = await asyncio.gather(*(_of_node(query_node, node) for node in asked))
    told = dict(zip(asked, found, strict=True))
    refused = {node: each for node, each in told.items() if isinstance(each, str)}
    made = {node: each for node, each in told.items() if isinstance(each, NodeAlerts)}
    return _fitted(AlertList(firing=firing, unseen=unseen, absent={**silent, **refused}), made)


async def acknowledge(
    replica: Replica, query_node: QueryNode, request: AlertAckRequest, user: str, *, admin: bool
) -> schema.Done:
    """Let a node mark alerts as seen by a user; Denied for users who may not."""
    if not admin:
        raise Denied("only an administrator acknowledges alerts")
    if request.node not in replica.state.book.nodes:
        raise NotFound(f"there is no node {request.node}")
    query = AlertsQuery("acknowledge", request.alerts, user, request.reason)
    reply = await _reply(query_node, request.node, query)
    return schema.Done(changed=reply.changed)


def _counted(replica: Replica) -> Iterator[tuple[str, tuple[AlertCounts, int]]]:
    """Yield each node with rules, with its counts and when it was heard (CLOCK_BOOTTIME)."""
    for node in sorted(replica.state.book.nodes):
        sample, heard_ns = replica.nodes.observations.get(node, (None, 0))
        if sample is not None and sample.alerts is not None:
            said = (sample.alerts.firing, sample.alerts.unseen, sample.alerts.resolved)
            yield node, (AlertCounts(*(min(max(n, 0), COUNT_MAX) for n in said)), heard_ns)


async def _of_node(query_node: QueryNode, node: str) -> NodeAlerts | str:
    """Return a node's alerts, or the reason why they are absent."""
    try:
        reply = await _reply(query_node, node, AlertsQuery("list"))
        return _alerts.decode(reply.data)
    except StokerError as error:
        return error.message
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return f"its answer cannot be read: {error}"


async def _reply(query_node: QueryNode, node: str, query: AlertsQuery) -> AlertsReply:
    data = await query_node(node, "alerts", queries.encode(query), ANSWER_S)
    reply = queries.decode_reply(data)
    if not isinstance(reply, AlertsReply):
        raise Unavailable(f"node {node} answered with {type(reply).__name__}")
    return reply


def _fitted(found: AlertList, made: dict[str, NodeAlerts]) -> AlertList:
    """Return the list with the alerts of the nodes, as many as one reply may have."""
    rows = [
        msgspec.structs.replace(row, node=node)
        for node, each in made.items()
        for row in each.alerts
    ]
    rows.sort(key=alert_order)
    kept: list[AlertView] = []
    size = 0
    for row in rows:
        size += len(schema.encode(row))  # type: ignore[arg-type]
        if size > _LIST_BYTES_MAX:
            break
        kept.append(row)
    return msgspec.structs.replace(
        found,
        alerts=tuple(kept),
        judged={node: each.judged for node, each in made.items()},
        left_out=len(rows) - len(kept) + sum(each.left_out for each in made.values()),
    )
