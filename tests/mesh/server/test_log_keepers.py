# SPDX-License-Identifier: Apache-2.0
"""The log gets a copy for a server that enters and loses that of one that went, one at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stoker.mesh.log.genesis import VACANT, RosterMember
from stoker.mesh.server.log_keepers import LogKeepers, copies_due
from stoker.mesh.wire.schema_cluster import LogCopy, LogView
from stoker.native.errors import Unavailable

THREE = ("first", "second", "third")
FOUR = (*THREE, "fourth")
FIVE = (*FOUR, "fifth")


def log_of(*names: str, behind: str = "", leader: str = "first") -> LogView:
    copies = (LogCopy(server=name, current=name != behind) for name in names)
    return LogView(leader=leader, copies=tuple(copies))


@pytest.mark.parametrize(
    ("view", "servers", "there", "copies"),
    [
        (log_of(*THREE), THREE, (), 0),
        (log_of(*THREE), FOUR, (), 0),  # nobody is there who could keep it
        (log_of(*THREE), FOUR, ("fourth",), 4),
        (log_of(*THREE), FIVE, ("fourth", "fifth"), 4),  # one after the other
        (log_of(*FOUR), FIVE, ("fourth", "fifth"), 5),
        (log_of(*FOUR), FIVE, ("fourth",), 0),
        (log_of(*FOUR, behind="fourth"), FIVE, ("fourth", "fifth"), 0),  # first it has all
        (log_of(*FOUR), THREE, (), 3),
        (log_of(*FOUR, behind="fourth"), THREE, (), 3),  # its host is gone
        (log_of(*THREE, leader=""), FOUR, ("fourth",), 0),
        (log_of("first"), ("first",), (), 0),
        (log_of("first"), THREE, (), 0),
        (log_of("first"), THREE, ("second", "third"), 2),  # it has become one of three
        (log_of(), THREE, ("second",), 0),
    ],
)
def test_how_many_copies_the_log_gets(
    view: LogView, servers: tuple[str, ...], there: tuple[str, ...], copies: int
) -> None:
    assert copies_due(view, servers, there) == copies


class FakeLog:
    """A log of three copies; `trouble` is what its brokers say to another number."""

    def __init__(self, trouble: str = "") -> None:
        self.trouble = trouble
        self.kept: list[int] = []
        self.is_silent = False

    async def keepers(self) -> LogView:
        if self.is_silent:
            raise Unavailable("no broker answers")
        return log_of(*THREE)

    async def keep(self, copies: int) -> None:
        self.kept.append(copies)
        if self.trouble:
            raise Unavailable(self.trouble)


def keepers(log: FakeLog, *, role: str = "leading", servers: tuple[str, ...] = FOUR) -> LogKeepers:
    """The keepers as a scheduler of three sees them whose table has these servers."""
    applicants = SimpleNamespace(answering=lambda now_ns: frozenset({4}))
    members = tuple(RosterMember(number, f"U{number}") for number in (1, 2, 3))
    state = SimpleNamespace(config=SimpleNamespace(schedulers=(*members, VACANT)))
    replica: Any = SimpleNamespace(role=role, applicants=applicants, state=state)
    engine: Any = log
    return LogKeepers(engine, replica, "second", dict(enumerate(servers, 1)))


@pytest.mark.parametrize("trouble", ["", "no suitable peers for placement"])
async def test_the_leader_has_another_copy_made_until_there_is_one(trouble: str) -> None:
    log = FakeLog(trouble)
    found = keepers(log)
    assert await found.look() == log_of(*THREE) == found.view
    await found.look()
    assert log.kept == [4, 4]


@pytest.mark.parametrize("servers", [(), ("first",), ("first", "second")])
async def test_a_table_without_a_scheduler_that_counts_takes_no_copy(
    servers: tuple[str, ...],
) -> None:
    log = FakeLog()
    await keepers(log, servers=servers).look()
    assert log.kept == []


async def test_who_follows_or_hears_no_broker_changes_nothing() -> None:
    log = FakeLog()
    await keepers(log, role="following").look()
    log.is_silent = True
    assert await keepers(log).look() is None
    assert log.kept == []
