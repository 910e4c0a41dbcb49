# SPDX-License-Identifier: Apache-2.0
"""The action of a rule: the job of a series is cancelled when its alert fires.

It is a request like any other, signed by the node's owner, who wrote the rule. Invariant: only the
attempt that the alert is about is ended; a job that is over, or tried again meanwhile, stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from stoker.agent.alerts.alert import AlertEvent
from stoker.agent.alerts.rule import JOB, AlertRule
from stoker.agent.export.otlp_sender import Tried
from stoker.native.errors import NotFound, StokerError, Unavailable
from stoker.native.row_forms import clean

ATTEMPT = "stoker.job.attempt"
PATIENCE_S = 10.0
"""The longest time of one try."""
REASON_CHARS_MAX = 200
"""The most characters of a reason that the scheduler takes."""


def wanted(rules: Sequence[AlertRule]) -> Callable[[AlertEvent], bool]:
    """Return what is true of a change on which a rule acts."""
    acting = {rule.name for rule in rules if rule.action == "cancel"}
    return lambda event: event.change == "firing" and event.alert.rule in acting


def cancel(root: Path) -> Callable[[AlertEvent], Tried]:
    """Return what cancels the job of an alert. `root`: the node's state folder, whose owner asks.

    A host that joined has no key of an owner: there the reason says so, and nothing is cancelled.
    """

    def send(event: AlertEvent) -> Tried:
        from stoker.mesh.client.blocking_client import BlockingClient  # few nodes have such a rule

        series = dict(event.alert.series)
        job, attempt = int(series[JOB]), series.get(ATTEMPT)
        try:
            with BlockingClient(str(root), patience_s=PATIENCE_S) as client:
                now = client.get(job)
                if now.attempt == attempt and now.state in ("starting", "running"):
                    client.cancel(str(job), said(event))
        except Unavailable as error:
            return Tried(error.message, True)
        except NotFound as error:
            gone = error.message.startswith("there is no job")
            return Tried("" if gone else error.message)
        except StokerError as error:
            return Tried(error.message)
        return Tried()

    return send


def said(event: AlertEvent) -> str:
    """Return the reason that stays with the job."""
    alert = event.alert
    text = f"; {alert.text}" if alert.text else ""
    whole = f"alert {alert.rule} on node {event.node}: {alert.reason}{text}"
    return clean(whole)[:REASON_CHARS_MAX]
