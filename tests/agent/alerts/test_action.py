# SPDX-License-Identifier: Apache-2.0
"""The action of a rule: when it is wanted, whom it ends, and what its failures are."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from stoker.agent.alerts import action
from stoker.agent.alerts.alert import Alert, AlertEvent, Change
from stoker.agent.alerts.rule import AlertRule
from stoker.agent.export.otlp_sender import Tried
from stoker.mesh.client import blocking_client
from stoker.native.errors import Denied, NotFound, StokerError, Unavailable

SERIES = (("stoker.job.attempt", 2), ("stoker.job.id", 7))


def event(change: Change = "firing", rule: str = "idle", text: str = "") -> AlertEvent:
    why = "stoker.job.idle is 1, above 0.95 for 60 s"
    alert = Alert(3, rule, "stoker.job.idle", SERIES, "firing", 1.0, why, 1, text=text)
    return AlertEvent("n1", 1, change, alert)


class Client:
    """A client whose job is as the test says; `failure` is raised by each call."""

    job: Any = SimpleNamespace(attempt=2, state="running")
    failure: StokerError | None = None
    cancelled: list[tuple[str, str]]

    def __init__(self, where: str, patience_s: float) -> None:
        if self.failure is not None:
            raise self.failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def get(self, job: int) -> Any:
        return self.job

    def cancel(self, select: str, reason: str) -> None:
        self.cancelled.append((select, reason))


@pytest.fixture(autouse=True)
def cancelled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    monkeypatch.setattr(Client, "cancelled", [], raising=False)
    monkeypatch.setattr(blocking_client, "BlockingClient", Client)
    return Client.cancelled


def test_only_the_firing_of_a_rule_that_acts_is_wanted() -> None:
    acts = AlertRule("idle", "stoker.job.idle", action="cancel")
    wanted = action.wanted((acts, AlertRule("warn", "stoker.job.idle")))
    assert wanted(event()) and not wanted(event("resolved")) and not wanted(event(rule="warn"))


def test_the_job_is_cancelled_with_a_reason_that_the_scheduler_takes(
    cancelled: list[tuple[str, str]],
) -> None:
    assert action.cancel(Path("/s"))(event(text="ask the \x1b[31m administrator " * 20)) == Tried()
    ((job, reason),) = cancelled
    assert job == "7" and reason.startswith("alert idle on node n1: stoker.job.idle is 1, above")
    assert len(reason) == action.REASON_CHARS_MAX and reason.isprintable()


@pytest.mark.parametrize(("attempt", "state"), [(3, "running"), (2, "pending"), (2, "succeeded")])
def test_an_attempt_that_is_over_is_left_alone(
    attempt: int, state: str, cancelled: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "job", SimpleNamespace(attempt=attempt, state=state))
    assert action.cancel(Path("/s"))(event()) == Tried() and cancelled == []


@pytest.mark.parametrize(
    ("failure", "tried"),
    [
        (Unavailable("the broker is away"), Tried("the broker is away", True)),
        (Denied("this key may not"), Tried("this key may not")),
        (NotFound("there is no key here"), Tried("there is no key here")),
        (NotFound("there is no job 7"), Tried()),
    ],
)
def test_a_failure_says_why_and_a_node_that_is_away_is_tried_again(
    failure: StokerError, tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "failure", failure)
    assert action.cancel(Path("/s"))(event()) == tried
