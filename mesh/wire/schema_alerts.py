# SPDX-License-Identifier: Apache-2.0
"""The public messages about alerts of all nodes: which fire, which did, and that somebody saw them.

Owns the bound of one node's answer. An alert's number is its node's own, so a node and a number
name one alert.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from stoker.mesh.wire.schema_cluster import Int, Message, Part, ReplyMessage

ALERTS_OF_NODE_MAX = 320
"""The most alerts in one node's answer: those that fire first, the newest first."""
ALERTS_AT_ONCE = 256
"""The most alerts that one request acknowledges."""
ALERT_REASON_MAX = 200
"""The most characters of the reason of an acknowledgement."""


class AlertRequest(Message, frozen=True):
    """`alert.list`: the alerts of all nodes, for administrators; with `counts` only how many fire,
    for everybody."""

    counts: bool = False


class AlertAckRequest(Message, frozen=True):
    """`alert.acknowledge`: somebody has seen these alerts of a node, which go on firing."""

    node: str
    alerts: tuple[Int, ...]
    reason: str = ""


class AlertSeen(Part, frozen=True):
    """The acknowledgement of an alert."""

    by: str
    at_ns: int
    why: str = ""


class AlertView(Part, frozen=True):
    """One alert. `value` and `reason` are those of its last change."""

    node: str
    alert: int
    rule: str
    metric: str
    series: dict[str, Any]
    """The attributes of the series that it is about."""
    about: str
    """The series in words."""
    state: Literal["firing", "resolved"]
    value: float
    reason: str
    fired_ns: int
    resolved_ns: int = 0
    """0 while it fires."""
    acknowledged: AlertSeen | None = None
    text: str = ""
    """The advice of the rule."""
    sim: bool = False
    """True if it is about a simulated card."""


class AlertJudgement(Part, frozen=True):
    """The newest judgement of a node's rules; `age_ns` old when the node answered."""

    age_ns: int
    interval_ns: int
    silent: tuple[str, ...] = ()
    """The rules that watch no series of this node."""


class NodeAlerts(Part, frozen=True):
    """The alerts of one node. `judged` is null if no agent judges there."""

    alerts: tuple[AlertView, ...] = ()
    judged: AlertJudgement | None = None
    left_out: int = 0
    """Alerts that are not in it, for room."""


class AlertList(ReplyMessage, frozen=True):
    """Alerts: those that fire and nobody has seen, then the seen ones, then what was resolved, each
    kind with the newest first.

    `firing` and `unseen` are what nodes counted within the last second or so.
    """

    firing: int
    unseen: int
    alerts: tuple[AlertView, ...] = ()
    judged: dict[str, AlertJudgement | None] = msgspec.field(default_factory=dict)
    """Node -> the newest judgement there; only nodes that have alerts."""
    absent: dict[str, str] = msgspec.field(default_factory=dict)
    """Node -> the reason why its alerts are not here."""
    left_out: int = 0


def alert_order(row: AlertView) -> tuple[int, int]:
    """Return the place of an alert in a list, as `AlertList` has them."""
    if row.state == "resolved":
        return 2, -row.resolved_ns
    return int(row.acknowledged is not None), -row.fired_ns
