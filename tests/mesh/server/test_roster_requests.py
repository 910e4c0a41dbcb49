# SPDX-License-Identifier: Apache-2.0
"""An administrator names a server, and its scheduler leaves the roster or comes back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stoker.mesh.log.entry import RosterBlob
from stoker.mesh.log.genesis import VACANT, RosterMember, member_number
from stoker.mesh.replica.events import Admin, RosterChange
from stoker.mesh.server import roster_requests
from stoker.mesh.wire.schema import ClusterAdmitRequest, ClusterRemoveRequest
from stoker.mesh.wire.schema_cluster import LogCopy, LogView
from stoker.native.errors import NotFound, Refused

SERVERS = {name: f"U{name.upper()}AAAAAAAAA" for name in ("first", "second", "third")}
MEMBERS = tuple(RosterMember(member_number(key), key) for key in SERVERS.values())


def state(*members: RosterMember) -> Any:
    return SimpleNamespace(config=SimpleNamespace(schedulers=members))


def remove(server: str, *members: RosterMember) -> Admin | RosterChange:
    request = ClusterRemoveRequest(server=server)
    return roster_requests.remove("token", request, state(*members), SERVERS)


def admit(server: str, *members: RosterMember) -> Admin | RosterChange:
    return roster_requests.admit(
        "token", ClusterAdmitRequest(server=server), state(*members), SERVERS
    )


def test_a_server_leaves_by_its_name() -> None:
    assert remove("second", *MEMBERS) == RosterChange("token", RosterBlob(1, VACANT))


def test_a_server_comes_back_at_another_place() -> None:
    left = (MEMBERS[0], VACANT, MEMBERS[2])
    assert admit("second", *left) == RosterChange("token", RosterBlob(3, MEMBERS[1]))


def test_a_repeated_request_changes_nothing() -> None:
    left = (MEMBERS[0], VACANT, MEMBERS[2])
    assert remove("second", *left) == Admin("token", (), ())
    assert admit("second", *MEMBERS) == Admin("token", (), ())


@pytest.mark.parametrize("ask", [remove, admit])
def test_an_unknown_server_is_refused_with_those_there_are(ask: Any) -> None:
    with pytest.raises(NotFound, match="no server 'fourth'") as caught:
        ask("fourth", *MEMBERS)
    assert caught.value.hint == "It has first, second, third"


@pytest.mark.parametrize(
    ("roster", "says"),
    [
        ((MEMBERS[1],), "`stoker down` there ends the cluster"),
        ((VACANT, MEMBERS[1]), "`stoker down` there ends the cluster"),
        (MEMBERS, "`stoker cluster remove second` takes its scheduler out first"),
        ((MEMBERS[0], VACANT, MEMBERS[2]), "`stoker cluster revoke second` on the first server"),
    ],
)
def test_the_node_of_a_server_stays_and_the_refusal_names_the_next_step(
    roster: tuple[RosterMember, ...], says: str
) -> None:
    with pytest.raises(Refused, match="second has a scheduler and a broker") as caught:
        roster_requests.refuse_server("second", MEMBERS[1].number, roster)
    assert says in caught.value.hint


def kept(*names: str, behind: str = "") -> LogView:
    copies = (LogCopy(server=name, current=name != behind) for name in names)
    return LogView(leader="first", copies=tuple(copies))


@pytest.mark.parametrize(
    ("log", "may"),
    [
        (kept("first", "second"), False),
        (kept("first", "second", "third", behind="third"), False),
        (kept("first", "second", "third"), True),
        (kept("first"), False),  # of an only server, which is about to be one of three
        (kept(*"abcde"), True),  # it has no more copies
        (None, True),  # no broker tells: how far the server is, it has told itself
    ],
)
def test_a_server_enters_with_a_copy_of_the_log(log: LogView | None, may: bool) -> None:
    if may:
        roster_requests.check_copy("third", log)
    else:
        with pytest.raises(Refused, match="third has no current copy of the log"):
            roster_requests.check_copy("third", log)
