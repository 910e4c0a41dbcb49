# SPDX-License-Identifier: Apache-2.0
"""Commands at the node: it accepts only the next one, signed, for its cluster, node and term."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.wire import command
from stoker.mesh.wire.command import (
    CommandAccepted,
    CommandChain,
    CommandGap,
    CommandRefused,
    CommandRepeat,
    DesiredState,
    NodeCommand,
    Position,
)
from stoker.native.errors import BadRequest, Denied
from stoker.scheduler.nouns import ForgetJob, StopJob, TaskKey

AT = Position(3, 100, b"h" * 32)


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def chain(signer: Identity) -> CommandChain:
    return CommandChain("c1", "n1", [signer.verifier], AT)


def next_command(at: Position = AT, seq: int = 101, **changes: object) -> NodeCommand:
    made = NodeCommand(
        command.FORMAT, "c1", "n1", at.term, seq, at.seq, at.hash, 5, (ForgetJob(7),)
    )
    return msgspec.structs.replace(made, **changes)


def test_the_next_command_is_obeyed_once(chain: CommandChain, signer: Identity) -> None:
    data = command.seal(next_command(), signer)
    verdict = chain.offer(data)
    assert isinstance(verdict, CommandAccepted)
    assert verdict.command.actions == (ForgetJob(7),)
    assert chain.position.seq == 101
    assert chain.offer(data) == CommandRepeat()
    following = next_command(chain.position, 105, actions=(StopJob(1, 1, 0, 0, "r"),))
    assert isinstance(chain.offer(command.seal(following, signer)), CommandAccepted)
    assert chain.offer(data) == CommandRepeat()


def test_parts_of_one_entry_follow_each_other(chain: CommandChain, signer: Identity) -> None:
    first = command.seal(next_command(), signer)
    chain.offer(first)
    second = command.seal(next_command(chain.position, 101), signer)
    assert isinstance(chain.offer(second), CommandAccepted)
    assert chain.offer(second) == CommandRepeat()


def test_golden_bytes_of_what_names_a_task(signer: Identity) -> None:
    """The bodies begin with their tag and format; a key is four numbers."""
    stop = NodeCommand(7, "c", "n", 3, 4, 0, b"", 5, (StopJob(7, 2, 63, 1 << 63, "r"),))
    assert command.encode(stop).hex() == (
        "9aa7636f6d6d616e6407a163a16e030400c4000591"
        + "99a473746f7007023fcf8000000000000000a172a963616e63656c6c6564a0c0"
    )
    desired = DesiredState(7, "c", "n", 3, 4, b"", 6, 5, (TaskKey(7, 2, 63, 1 << 63),))
    body = command.encode(desired)
    assert body.hex() == (
        "dc0012a76465736972656407a163a16e0304c400060591"
        + "9407023fcf80000000000000009090c29000909090"
    )
    opened = command.open_desired(command.seal(desired, signer), [signer.verifier])
    assert opened.wanted[0].task == 63


@pytest.mark.parametrize(
    ("changes", "counter"),
    [
        ({"cluster": "c2"}, "command_cluster"),
        ({"node": "n2"}, "command_node"),
        ({"term": 2}, "command_term"),
        ({"format": command.FORMAT + 1}, "command_format"),
    ],
)
def test_foreign_commands_are_refused(
    chain: CommandChain, signer: Identity, changes: dict[str, object], counter: str
) -> None:
    verdict = chain.offer(command.seal(next_command(**changes), signer))  # type: ignore[arg-type]
    assert isinstance(verdict, CommandRefused)
    assert verdict.counter == counter
    assert chain.position == AT


def test_gaps_are_reported_and_not_skipped(chain: CommandChain, signer: Identity) -> None:
    for changes in ({"prev_seq": 99}, {"prev_hash": b"x" * 32}, {"term": 4}, {"prev_seq": 104}):
        assert isinstance(chain.offer(command.seal(next_command(**changes), signer)), CommandGap)  # type: ignore[arg-type]
    assert chain.position == AT


def test_a_stolen_broker_cannot_command(
    chain: CommandChain, signer: Identity, tmp_path: Path
) -> None:
    data = command.seal(next_command(), signer)
    thief = identity.create(tmp_path / "t")
    for forged in (
        command.seal(next_command(), thief),
        data[:-1],
        data[:64],
        b"",
        data[:70] + bytes([data[70] ^ 1]) + data[71:],
        signer.sign(data[64:]) + data[64:],  # a signature without the domain prefix
    ):
        verdict = chain.offer(forged)
        assert isinstance(verdict, CommandRefused)
        assert verdict.counter in ("command_signature", "command_format")
    assert chain.position == AT


def test_only_the_owner_of_a_term_commands_in_it(tmp_path: Path) -> None:
    """The second scheduler of a roster of three owns term 2, and the last one owns term 3."""
    roster = [identity.create(tmp_path / name) for name in "abc"]
    members = [each.verifier for each in roster]
    chain = CommandChain("c1", "n1", members, AT)
    for other in roster[:2]:
        verdict = chain.offer(command.seal(next_command(), other))
        assert isinstance(verdict, CommandRefused) and verdict.counter == "command_signature"
        answer = chain.reconcile(command.seal(desired(chain, term=3), other))
        assert isinstance(answer, CommandRefused) and answer.counter == "command_signature"
    nobody = chain.offer(command.seal(next_command(term=4), roster[0]))
    assert isinstance(nobody, CommandRefused) and nobody.counter == "command_signature"
    assert chain.position == AT
    assert isinstance(chain.offer(command.seal(next_command(), roster[2])), CommandAccepted)
    later = command.seal(desired(chain, term=10), roster[1])
    assert isinstance(chain.reconcile(later), DesiredState)


def test_records_do_not_pass_for_each_other(chain: CommandChain, signer: Identity) -> None:
    state = command.seal(desired(chain), signer)
    assert isinstance(chain.offer(state), CommandRefused)
    assert isinstance(chain.reconcile(command.seal(next_command(), signer)), CommandRefused)
    with pytest.raises(BadRequest, match="expected a NodeCommand, got a DesiredState"):
        command.open_command(state, [signer.verifier])
    with pytest.raises(Denied):
        command.open_desired(bytes([state[0] ^ 1]) + state[1:], [signer.verifier])


def test_the_last_command_of_the_leader_shows_what_was_missed(chain: CommandChain) -> None:
    ahead = (Position(3, 101), Position(3, 100, b"p" * 32), Position(4, 2, b"h" * 32))
    assert [chain.is_behind(at) for at in ahead] == [True] * 3
    assert [chain.is_behind(at) for at in (AT, Position(3, 99), Position(2, 200))] == [False] * 3


def desired(chain: CommandChain, **changes: object) -> DesiredState:
    nonce = chain.state_request(()).nonce
    made = DesiredState(command.FORMAT, "c1", "n1", 4, 200, b"n" * 32, nonce, 5)
    return msgspec.structs.replace(made, **changes)


def test_catching_up_moves_to_the_given_place(chain: CommandChain, signer: Identity) -> None:
    verdict = chain.reconcile(command.seal(desired(chain), signer))
    assert isinstance(verdict, DesiredState)
    assert chain.position == Position(4, 200, b"n" * 32)
    following = command.seal(next_command(chain.position, 201), signer)
    assert isinstance(chain.offer(following), CommandAccepted)


def test_a_part_of_the_answer_moves_nothing(chain: CommandChain, signer: Identity) -> None:
    verdict = chain.reconcile(command.seal(desired(chain, more=True), signer))
    assert isinstance(verdict, DesiredState)
    assert chain.position == AT


def test_old_answers_are_refused(chain: CommandChain, signer: Identity) -> None:
    recorded = command.seal(desired(chain), signer)
    chain.state_request(())
    for data in (
        recorded,
        command.seal(desired(chain, term=2), signer),
        command.seal(desired(chain, term=3, seq=99), signer),
        command.seal(desired(chain, node="n2"), signer),
    ):
        assert isinstance(chain.reconcile(data), CommandRefused)
    assert chain.position == AT


def test_a_state_request_names_a_bounded_number_of_attempts(chain: CommandChain) -> None:
    ask = chain.state_request(tuple((job, 1) for job in range(1, command.HAVE_MAX + 10)))
    assert len(ask.have) == command.HAVE_MAX
    assert ask.position == AT
