# SPDX-License-Identifier: Apache-2.0
"""The decision on join requests: a token admits one node, whatever is asked and how often."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.agent.join import door
from stoker.agent.join.door import InUse, TurnedAway
from stoker.agent.state import joins, node_name
from stoker.agent.state.joins import IssuedToken, Joins
from stoker.mesh.identity import identity
from stoker.mesh.wire import join_messages, subjects
from stoker.mesh.wire.join_messages import JoinRequest

NOW = 1_000_000
NONCE = b"n" * join_messages.NONCE_BYTES
KEYS = [identity.of_raw(bytes([number]) * 32).public for number in range(1, 20)]
TOKENS, AGENTS, SCHEDULER = KEYS[:4], KEYS[4:9], KEYS[9]
TAKEN = InUse({"first"}, {SCHEDULER})
KNOWN = Joins({key: IssuedToken(NOW + 60) for key in TOKENS})


def request(token: str = TOKENS[0], agent: str = AGENTS[0], name: str = "second") -> JoinRequest:
    return JoinRequest(join_messages.FORMAT, token, name, agent, NONCE)


def refused(known: Joins, asked: JoinRequest, now_s: int = NOW) -> TurnedAway:
    with pytest.raises(TurnedAway) as found:
        door.judge(asked, known, TAKEN, now_s)
    assert "\n" not in str(found.value)
    return found.value


def test_a_token_admits_one_node_with_the_name_that_it_wants() -> None:
    made = door.judge(request(), KNOWN, TAKEN, NOW)
    assert (made.node, made.is_new) == ("second", True)
    assert made.joins.nodes["second"] == joins.JoinedNode(AGENTS[0], TOKENS[0], NOW)
    again = refused(made.joins, request(agent=AGENTS[1], name="third"))
    assert again.counter == "used"
    assert "node second has joined with this token" in str(again)


def test_the_same_request_again_gets_the_same_answer_even_after_the_tokens_end() -> None:
    made = door.judge(request(), KNOWN, TAKEN, NOW)
    again = door.judge(request(name="other"), made.joins, TAKEN, NOW + 10_000)
    assert again == door.Admission("second", made.joins, is_new=False)


def test_a_used_token_stays_used_when_its_row_was_dropped() -> None:
    made = door.judge(request(), KNOWN, TAKEN, NOW).joins
    assert refused(Joins({}, made.nodes), request(agent=AGENTS[1])).counter == "used"


@pytest.mark.parametrize(
    ("asked", "now_s", "counter", "said"),
    [
        (request(token=KEYS[11]), NOW, "unknown", "this cluster did not make this token"),
        (request(), NOW + 60, "expired", "expired 0 s ago"),
        (request(), NOW + 3660, "expired", "expired 3600 s ago"),
        (request(agent=SCHEDULER), NOW, "key_taken", "somebody else"),
        (request(agent=TOKENS[1]), NOW, "key_taken", "somebody else"),
        (request(name=""), NOW, "bad_name", "cannot be a node's name"),
        (request(name="Node"), NOW, "bad_name", "cannot be a node's name"),
        (request(name="a.b"), NOW, "bad_name", "cannot be a node's name"),
        (request(name="a b\x1b[2J"), NOW, "bad_name", r"\\x1b"),
        (request(name=">"), NOW, "bad_name", "cannot be a node's name"),
        (request(name="x--6162"), NOW, "bad_name", "cannot be a node's name"),
        (request(name="n" * 64), NOW, "bad_name", "cannot be a node's name"),
    ],
)
def test_what_is_refused(asked: JoinRequest, now_s: int, counter: str, said: str) -> None:
    found = refused(KNOWN, asked, now_s)
    assert found.counter == counter
    assert said.replace(r"\\", "\\") in str(found)


def test_a_key_of_another_node_is_refused() -> None:
    made = door.judge(request(), KNOWN, TAKEN, NOW).joins
    assert refused(made, request(token=TOKENS[1])).counter == "key_taken"


def test_a_full_cluster_takes_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "NODES_MAX", 1)
    made = door.judge(request(), KNOWN, TAKEN, NOW).joins
    assert refused(made, request(token=TOKENS[1], agent=AGENTS[1])).counter == "full"


def test_hosts_of_one_name_get_names_of_their_own() -> None:
    known, names = KNOWN, []
    for token, agent in zip(TOKENS, AGENTS, strict=False):
        made = door.judge(request(token, agent, "first"), known, TAKEN, NOW)
        known = made.joins
        names.append(made.node)
    assert names == ["first-2", "first-3", "first-4", "first-5"]


@given(st.integers(1, 63), st.integers(0, 120))
def test_a_name_is_always_free_and_short_enough(length: int, others: int) -> None:
    taken = {"n" * length}
    for _ in range(others):
        name = door.free_name("n" * length, taken)
        assert name not in taken and subjects.token(name) == name
        assert len(name) <= node_name.NAME_CHARS_MAX
        taken.add(name)


class Step(NamedTuple):
    token: int
    agent: int
    name: str
    later_s: int


@given(
    st.lists(
        st.builds(
            Step,
            st.integers(0, len(TOKENS)),
            st.integers(0, len(AGENTS) - 1),
            st.sampled_from(["first", "second", "first-2"]),
            st.integers(0, 25),
        ),
        max_size=25,
    )
)
def test_no_order_of_requests_admits_two_nodes_by_one_token(steps: list[Step]) -> None:
    """The oracle is a list of (token, agent, name) in the order in which they were let in."""
    known, let_in, now = KNOWN, list[tuple[str, str, str]](), NOW
    for step in steps:
        now += step.later_s
        token, agent = KEYS[step.token], AGENTS[step.agent]
        before = next((row for row in let_in if row[:2] == (token, agent)), None)
        may = (
            step.token < len(TOKENS)
            and now < NOW + 60
            and all(token != row[0] and agent != row[1] for row in let_in)
        )
        try:
            made = door.judge(request(token, agent, step.name), known, TAKEN, now)
        except TurnedAway:
            assert before is None and not may
            continue
        known = made.joins
        assert made.is_new == may
        if before is not None:
            assert made.node == before[2]
        else:
            assert may and made.node not in {"first", *(row[2] for row in let_in)}
            let_in.append((token, agent, made.node))
    assert {name: (row.token, row.public_key) for name, row in known.nodes.items()} == {
        name: (token, agent) for token, agent, name in let_in
    }


# --- another key for a node -----------------------------------------------------------------------


def rotated(known: Joins, token: str, agent: str, node: str = "second") -> door.Admission:
    asked = request(token, agent, node)
    return door.judge_rotation(asked, "second", known, TAKEN)


def test_a_node_gets_another_key_by_its_present_one_and_gives_that_up_by_the_new() -> None:
    known = door.judge(request(), KNOWN, TAKEN, NOW).joins
    made = rotated(known, AGENTS[0], AGENTS[1])
    row = made.joins.nodes["second"]
    assert (made.is_new, row.public_key, row.former) == (True, AGENTS[1], AGENTS[0])
    assert (row.token, row.joined_s) == (TOKENS[0], NOW)
    assert rotated(made.joins, AGENTS[0], AGENTS[1]) == door.Admission(
        "second", made.joins, is_new=False
    ), "a repeat"
    done = rotated(made.joins, AGENTS[1], AGENTS[1])
    assert (done.is_new, done.joins.nodes["second"].former) == (True, "")
    assert not rotated(done.joins, AGENTS[1], AGENTS[1]).is_new
    with pytest.raises(TurnedAway, match="is another one"):
        rotated(done.joins, AGENTS[0], AGENTS[0])


def test_an_interrupted_change_of_keys_begins_again_from_either_key() -> None:
    known = door.judge(request(), KNOWN, TAKEN, NOW).joins
    halfway = rotated(known, AGENTS[0], AGENTS[1]).joins
    for present in (AGENTS[0], AGENTS[1]):
        row = rotated(halfway, present, AGENTS[2]).joins.nodes["second"]
        assert (row.public_key, row.former) == (AGENTS[2], present)
    with pytest.raises(TurnedAway, match="was to use another key"):
        rotated(halfway, AGENTS[0], AGENTS[0])


def test_nobody_else_changes_a_nodes_key_and_no_key_is_taken_twice() -> None:
    known = door.judge(request(), KNOWN, TAKEN, NOW).joins
    for token, agent, node in ((AGENTS[1], TOKENS[1], "second"), (AGENTS[0], AGENTS[1], "third")):
        with pytest.raises(TurnedAway) as refusal:
            rotated(known, token, agent, node)
        assert refusal.value.counter == "rotation_unknown"
    with pytest.raises(TurnedAway) as refusal:
        door.judge_rotation(request(AGENTS[0], AGENTS[1]), "absent", known, TAKEN)
    assert refusal.value.counter == "rotation_unknown"
    halfway = rotated(known, AGENTS[0], AGENTS[1]).joins
    taken = next(iter(TAKEN.keys))
    for agent in (taken, TOKENS[0]):
        with pytest.raises(TurnedAway) as refusal:
            rotated(halfway, AGENTS[1], agent)
        assert refusal.value.counter == "key_taken"
    assert refused(halfway, request(TOKENS[1], AGENTS[0])).counter == "key_taken", "a former key"
