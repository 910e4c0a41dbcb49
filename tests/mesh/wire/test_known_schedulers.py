# SPDX-License-Identifier: Apache-2.0
"""A node believes a roster only from schedulers that it knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.wire import command, peer_messages
from stoker.mesh.wire.command import (
    CommandChain,
    CommandGap,
    CommandRefused,
    DesiredState,
    NodeCommand,
    Position,
)
from stoker.mesh.wire.known_schedulers import KnownSchedulers, digest
from stoker.mesh.wire.peer_messages import Pledge

TERM = 12
"""A term of the scheduler at place 3."""


@pytest.fixture
def four(tmp_path: Path) -> list[Identity]:
    """Three schedulers of the genesis and one that entered later."""
    return [identity.create(tmp_path / name) for name in "abcd"]


def keys(four: list[Identity]) -> tuple[str, ...]:
    """The roster after the first one left and the fourth entered."""
    return ("", *(each.public for each in four[1:]))


def chain(four: list[Identity]) -> CommandChain:
    known = KnownSchedulers(tuple(each.public for each in four[:3]))
    return CommandChain("c", "n", known, Position(3, 9))


def stated(four: list[Identity], voter: Identity, **changes: object) -> bytes:
    """A desired state that the fourth scheduler signed, with the pledge of a voter."""
    fields = {"cluster": "c", "term": TERM, "roster": digest(keys(four)), **changes}
    pledge = Pledge(fields["cluster"], 2, 4, fields["term"], 1, fields["roster"])  # type: ignore[arg-type]
    sealed = peer_messages.seal_pledge(pledge, voter)
    made = DesiredState(
        command.FORMAT, "c", "n", TERM, 20, b"", 1, 5,
        schedulers=keys(four), vouchers=(b"noise", sealed),
    )  # fmt: skip
    return command.seal(made, four[3])


def test_a_known_scheduler_introduces_another_leader(four: list[Identity]) -> None:
    node = chain(four)
    node.state_request(())
    found = node.reconcile(stated(four, four[1]))
    assert isinstance(found, DesiredState)
    assert node.learn(found.schedulers) and not node.learn(found.schedulers), "once is enough"
    body = NodeCommand(command.FORMAT, "c", "n", TERM, 21, 20, b"", 5, ())
    assert not isinstance(node.offer(command.seal(body, four[3])), CommandRefused | CommandGap)
    old = NodeCommand(command.FORMAT, "c", "n", 17, 22, 21, b"", 5, ())
    assert isinstance(node.offer(command.seal(old, four[0])), CommandGap), "who left is a stranger"


@pytest.mark.parametrize(
    "changes", [{"cluster": "d"}, {"term": 4}, {"roster": b""}, {"roster": digest(("x",))}]
)
def test_a_pledge_for_something_else_introduces_nobody(
    four: list[Identity], changes: dict[str, object]
) -> None:
    node = chain(four)
    node.state_request(())
    refused = node.reconcile(stated(four, four[1], **changes))
    assert isinstance(refused, CommandRefused) and refused.counter == "command_signature"


def test_a_stranger_introduces_nobody_and_not_itself(four: list[Identity]) -> None:
    node = chain(four)
    node.state_request(())
    assert isinstance(node.reconcile(stated(four, four[3])), CommandRefused)
    assert node.position == Position(3, 9)


def test_a_command_of_a_stranger_has_the_state_requested(four: list[Identity]) -> None:
    body = NodeCommand(command.FORMAT, "c", "n", TERM, 21, 20, b"", 5, ())
    assert isinstance(chain(four).offer(command.seal(body, four[3])), CommandGap)
    old = NodeCommand(command.FORMAT, "c", "n", 2, 21, 20, b"", 5, ())
    assert isinstance(chain(four).offer(command.seal(old, four[3])), CommandRefused)


def test_what_is_no_key_is_not_learnt(four: list[Identity]) -> None:
    known = KnownSchedulers(tuple(each.public for each in four[:3]))
    assert not known.learn(("no key",)) and not known.learn(()) and not known.learn(("", ""))
    assert known.keys == tuple(each.public for each in four[:3])
    assert len(known) == 3 and known[0] is not None
