# SPDX-License-Identifier: Apache-2.0
"""The view `alerts`: what fires on all nodes, what was resolved, and who has seen it.

Pure. What nobody has seen comes first. Alerts of a node that does not answer, or whose rules are
not judged any more, are said to be missing or old, and never counted as resolved.
"""

from __future__ import annotations

from stoker.mesh.wire.schema_alerts import AlertJudgement, AlertView
from stoker.native.row_forms import short_id
from stoker.tui.render import units
from stoker.tui.top.answers import Answers
from stoker.tui.top.lines import Line, Look, Piece, Tone, line, wrapped
from stoker.tui.top.table import ViewColumn
from stoker.tui.top.view import View
from stoker.tui.top.views import words

FOOT_ROWS = 7
LATE_NS = 1_000_000_000
"""A judgement may be so much later than its interval says."""
STALE_INTERVALS = 3
"""A judgement that is older than so many intervals is marked as stale."""
_OF_CARD = frozenset({"hw.id", "hw.type", "hw.name", "hw.vendor"})
"""Attributes of a card that its id stands for."""


def _state(alert: AlertView) -> str:
    if alert.state == "resolved":
        return "resolved"
    return "FIRING" if alert.acknowledged is None else "seen"


def _tone(alert: AlertView, answers: Answers, look: Look) -> Tone:
    if alert.state == "resolved":
        return "dim"
    return "bad" if alert.acknowledged is None else "warn"


def _lasted(alert: AlertView, look: Look) -> str:
    until_ns = alert.resolved_ns or look.now_ns
    return words.ago(alert.fired_ns, max(until_ns, alert.fired_ns))


def _about(alert: AlertView) -> str:
    """Return the series in few cells: SIM comes first, since a narrow column cuts the end."""
    card = [short_id(str(alert.series["hw.id"]))] if "hw.id" in alert.series else []
    rest = [
        f"{name.removeprefix('hw.').removeprefix('stoker.')}={value}"
        for name, value in alert.series.items()
        if name not in _OF_CARD
    ]
    return " ".join(["SIM"] * alert.sim + card + rest) or "this node"


def _head(answers: Answers, subject: str, look: Look) -> list[Line]:
    found = answers.alerts
    if found is None:
        return [words.absent("alerts", answers.refused.get("alerts", ""))]
    made = [line(f"! {node}: {why}; its alerts are missing here", "bad")
            for node, why in found.absent.items()]  # fmt: skip
    for node, judged in found.judged.items():
        made += _judged(node, judged)
    if found.left_out:
        made.append(line(f"{found.left_out:,} more alerts have no room here", "warn"))
    return made


def _judged(node: str, judged: AlertJudgement | None) -> list[Line]:
    """Return what is to be said of the judgement of a node's rules."""
    if judged is None:
        return [line(f"! {node}: no agent judges its alerts now", "bad")]
    made = []
    if judged.age_ns > STALE_INTERVALS * judged.interval_ns + LATE_NS:
        old = units.duration(judged.age_ns // 10**9 * 10**9)
        made.append(line(f"! {node}: STALE, its alerts were judged {old} ago", "bad"))
    if judged.silent:
        made.append(line(f"{node}: rules that watch nothing: {', '.join(judged.silent)}", "dim"))
    return made


def _foot(answers: Answers, alert: AlertView | None, look: Look) -> list[Line]:
    """Return all that is known of the alert under the cursor."""
    if alert is None:
        return []
    room = look.columns
    about = f"on {alert.node}: {alert.about}"
    made: list[Line] = [
        (Piece(f"a{alert.alert} {alert.rule} ", "title"), Piece(about)),
        *wrapped("why: ", alert.reason, room, _tone(alert, answers, look)),
    ]
    if alert.text:
        made += wrapped("what to do: ", alert.text, room)
    return [*made, *_seen(alert, look)]


def _seen(alert: AlertView, look: Look) -> list[Line]:
    seen = alert.acknowledged
    if seen is None:
        return [(Piece("a ", "key"), Piece("acknowledges it", "dim"))] * (alert.state == "firing")
    why = f": {seen.why}" if seen.why else ""
    said = f"{seen.by}, {words.ago(seen.at_ns, look.now_ns)} ago{why}"
    return wrapped("seen by: ", said, look.columns)


def _name(alert: AlertView) -> str:
    return f"{alert.node}:a{alert.alert}"


def _device(alert: AlertView) -> str:
    """Return the device of an alert about a whole card; a sensor's id is none of a device."""
    card = alert.series.get("hw.id") if alert.series.get("hw.type") == "gpu" else None
    return f"{alert.node}:{card}" if card else ""


_ALERT = ViewColumn[AlertView]("ALERT", 6, lambda alert, look: f"a{alert.alert}", right=True,
                               leaves=2, order=lambda alert: alert.alert)  # fmt: skip
_SINCE = ViewColumn[AlertView]("SINCE", 7, lambda alert, look: words.ago(alert.fired_ns,
                               look.now_ns), right=True, leaves=3,
                               order=lambda alert: -alert.fired_ns)  # fmt: skip
_LASTED = ViewColumn[AlertView]("LASTED", 7, _lasted, right=True, leaves=1,
                                order=lambda alert: (alert.resolved_ns or 1 << 62)
                                - alert.fired_ns)  # fmt: skip

VIEW = View(
    name="alerts",
    title="Alerts",
    says="what fires on all nodes, what was resolved, and who has seen it",
    needs=("alerts",),
    items=lambda answers, subject: answers.alerts.alerts if answers.alerts is not None else (),
    head=_head,
    foot=_foot,
    foot_rows=FOOT_ROWS,
    columns=(
        _ALERT,
        ViewColumn("NODE", 8, lambda alert, look: alert.node, order=lambda alert: alert.node),
        ViewColumn("STATE", 8, lambda alert, look: _state(alert), order=_state),
        _SINCE,
        _LASTED,
        ViewColumn("RULE", 10, lambda alert, look: alert.rule, order=lambda alert: alert.rule),
        ViewColumn(
            "ABOUT", 14, lambda alert, look: _about(alert), leaves=4, grows=True, order=_about
        ),
        ViewColumn("WHY", 20, lambda alert, look: alert.reason, grows=True),
    ),
    key=_name,
    text=lambda alert: (
        f"a{alert.alert} {alert.node} {_state(alert)} {alert.rule} {alert.about} {alert.reason}"
    ),
    tone=_tone,
    empty="no alert fires, and none was resolved",
    node=lambda alert: alert.node,
    into="node",
    into_subject=lambda alert: alert.node,
    alert=lambda alert: _name(alert) if alert.state == "firing" else "",
    device=_device,
    job=lambda alert: str(alert.series.get("stoker.job.id", "")),
)
