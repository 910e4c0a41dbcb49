# SPDX-License-Identifier: Apache-2.0
"""The record of join tokens and joined nodes: its bounds, and that damage is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.state import joins
from stoker.agent.state.joins import TOKENS_MAX, IssuedToken, JoinedNode, Joins
from stoker.mesh.identity import identity
from stoker.native.errors import Corrupt, Refused

NOW = 1_000_000


def key(number: int) -> str:
    return identity.of_raw(number.to_bytes(32, "big")).public


def full(expires_s: int) -> Joins:
    return Joins({key(n): IssuedToken(expires_s + n) for n in range(TOKENS_MAX)})


def test_it_is_read_as_it_was_saved(tmp_path: Path) -> None:
    made = joins.with_token(Joins(), key(1), NOW + 60, NOW)
    made = joins.with_node(made, "second", JoinedNode(key(2), key(1), NOW))
    joins.save(tmp_path / "joins.json", made)
    assert joins.load(tmp_path / "joins.json") == made
    assert (tmp_path / "joins.json").stat().st_mode & 0o077 == 0


def test_a_lost_or_damaged_record_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "joins.json"
    with pytest.raises(Corrupt, match="is missing"):
        joins.load(path)
    joins.save(path, joins.with_token(Joins(), key(1), NOW, NOW - 1))
    path.write_bytes(path.read_bytes().replace(str(NOW).encode(), str(NOW + 9).encode()))
    with pytest.raises(Corrupt, match="its content was changed"):
        joins.load(path)
    joins.save(path, Joins({"not a key": IssuedToken(NOW)}))
    with pytest.raises(Corrupt, match="public nkey"):
        joins.load(path)


def test_tokens_in_force_are_never_dropped_for_a_new_one() -> None:
    with pytest.raises(Refused, match=f"{TOKENS_MAX} join tokens are in force"):
        joins.with_token(full(NOW + 1), key(9999), NOW + 60, NOW)


def test_the_token_that_expired_first_makes_room() -> None:
    made = joins.with_token(full(NOW - TOKENS_MAX), key(9999), NOW + 60, NOW)
    assert len(made.tokens) == TOKENS_MAX
    assert key(0) not in made.tokens and key(1) in made.tokens
    assert made.tokens[key(9999)] == IssuedToken(NOW + 60)


def test_a_used_token_makes_room_and_its_node_remembers_it() -> None:
    known = joins.with_node(full(NOW + 1), "second", JoinedNode(key(5000), key(7), NOW))
    made = joins.with_token(known, key(9999), NOW + 60, NOW)
    assert key(7) not in made.tokens and len(made.tokens) == TOKENS_MAX
    assert made.nodes["second"].token == key(7)
