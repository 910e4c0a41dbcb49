# SPDX-License-Identifier: Apache-2.0
"""The answers of a node about its alerts, to the scheduler and thereby to administrators anywhere.

They come from the files that `stoker alerts` reads, so both always say the same. Owns that an
answer fits one message: the alerts that fire come first, and what is left out is counted.
"""

from __future__ import annotations

import time

import msgspec

from stoker.agent.alerts import alert_files
from stoker.agent.alerts.alert import Acknowledgement, Alert
from stoker.agent.alerts.alert_files import AlertStatus
from stoker.agent.alerts.judge import AlertBook
from stoker.agent.state.state_folder import StateFolder
from stoker.mesh.wire.queries import CHUNK_BYTES_MAX, AlertsQuery, AlertsReply
from stoker.mesh.wire.schema_alerts import (
    ALERT_REASON_MAX,
    ALERTS_AT_ONCE,
    ALERTS_OF_NODE_MAX,
    AlertJudgement,
    AlertSeen,
    AlertView,
    NodeAlerts,
)
from stoker.native.errors import BadRequest, NotFound, StokerError

_CUT = 8
"""The part of its alerts that an answer loses at a time until it fits."""


def answer(where: StateFolder, node: str, query: AlertsQuery) -> AlertsReply:
    """Return the answer to a query; reads and writes files. A StokerError is the refusal."""
    changed = _acknowledge(where, query) if query.do == "acknowledge" else False
    status, book = _read(where)
    return AlertsReply(_encoded(node, status, book), changed)


def found(where: StateFolder) -> tuple[AlertStatus | None, AlertBook]:
    """Return the newest status, if an agent judges, and the alerts, each with its acknowledgement
    although the agent has not taken that over yet. OSError or msgspec.MsgspecError if the book
    cannot be read."""
    status = alert_files.read_status(where.run)
    book = status.book if status is not None else alert_files.read_book(where.agent)
    seen = alert_files.read_acknowledged(where.agent)
    firing = tuple(_marked(alert, seen.get(alert.id)) for alert in book.firing)
    return status, msgspec.structs.replace(book, firing=firing)


def _marked(alert: Alert, seen: Acknowledgement | None) -> Alert:
    if seen is None or alert.acknowledged is not None:
        return alert
    return msgspec.structs.replace(alert, acknowledged=seen)


def _acknowledge(where: StateFolder, query: AlertsQuery) -> bool:
    """Mark alerts as seen; return if any was not yet. NotFound names what does not fire."""
    if len(query.why) > ALERT_REASON_MAX or not query.why.isprintable():
        raise BadRequest(f"a reason is one line of at most {ALERT_REASON_MAX} characters")
    if not 0 < len(query.alerts) <= ALERTS_AT_ONCE:
        raise BadRequest(f"{len(query.alerts)} alerts at once, from 1 to {ALERTS_AT_ONCE}")
    firing = {alert.id: alert for alert in _read(where)[1].firing}
    for id in query.alerts:
        if id not in firing:
            raise NotFound(f"alert a{id} does not fire on this node")
    new = any(firing[id].acknowledged is None for id in query.alerts)
    seen = Acknowledgement(query.by, time.time_ns(), query.why)
    alert_files.acknowledge(where, firing, dict.fromkeys(query.alerts, seen))
    return new


def _read(where: StateFolder) -> tuple[AlertStatus | None, AlertBook]:
    try:
        return found(where)
    except (OSError, msgspec.MsgspecError) as error:
        raise StokerError(f"its book of alerts cannot be read: {error}") from None


def _encoded(node: str, status: AlertStatus | None, book: AlertBook) -> bytes:
    """Return the alerts as JSON: those that fire and were not seen first, the newest first."""
    firing = sorted(book.firing, key=lambda each: (each.acknowledged is not None, -each.fired_ns))
    rows = [_view(node, alert) for alert in (*firing, *reversed(book.history))]
    kept, judged = rows[:ALERTS_OF_NODE_MAX], _judgement(status)
    while True:
        left_out = len(rows) - len(kept)
        data = msgspec.json.encode(NodeAlerts(alerts=kept, judged=judged, left_out=left_out))  # type: ignore[arg-type]
        if len(data) <= CHUNK_BYTES_MAX or not kept:
            return data
        kept = kept[: len(kept) - (len(kept) + _CUT - 1) // _CUT]


def _judgement(status: AlertStatus | None) -> AlertJudgement | None:
    if status is None:
        return None
    silent = tuple(rule.name for rule in status.rules if not rule.series)
    age_ns = max(0, time.time_ns() - status.t_ns)
    return AlertJudgement(
        age_ns=age_ns, interval_ns=int(status.interval_s * 1_000_000_000), silent=silent
    )


def _view(node: str, alert: Alert) -> AlertView:
    seen = alert.acknowledged
    return AlertView(
        node=node,
        alert=alert.id,
        rule=alert.rule,
        metric=alert.metric,
        series=dict(alert.series),
        about=alert.said,
        state=alert.state,
        value=alert.value,
        reason=alert.reason,
        fired_ns=alert.fired_ns,
        resolved_ns=alert.resolved_ns,
        acknowledged=AlertSeen(by=seen.by, at_ns=seen.at_ns, why=seen.why) if seen else None,
        text=alert.text,
        sim=alert.simulated,
    )
