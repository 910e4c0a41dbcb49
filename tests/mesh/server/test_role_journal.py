# SPDX-License-Identifier: Apache-2.0
"""The log file names each step of a takeover, and no repetition of a failing log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from structlog.testing import capture_logs

from stoker.mesh.server.role_journal import RoleJournal


def told(*roles: str) -> list[str]:
    """The roles of which a line is written when a replica has these in turn."""
    replica: Any = SimpleNamespace(role=roles[0], why="")
    journal = RoleJournal(replica)
    with capture_logs() as lines:
        for role in roles:
            replica.role = role
            journal.look()
            journal.look()
    return [line["role"] for line in lines]


def test_each_step_to_leadership_has_a_line() -> None:
    steps = ("following", "pledging", "reading", "repairing", "electing", "leading")
    assert told(*steps) == list(steps[1:-1])


def test_a_log_that_fails_again_and_again_writes_nothing() -> None:
    assert told("leading", *("waiting", "reading") * 20, "leading") == []


def test_who_steps_down_is_told() -> None:
    assert told("leading", "following") == ["following"]
