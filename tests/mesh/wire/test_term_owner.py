# SPDX-License-Identifier: Apache-2.0
"""Each term has one owner, and one scheduler owns every term."""

from __future__ import annotations

from stoker.mesh.wire.term_owner import OWNERS, term_owner


def test_the_only_scheduler_owns_every_term() -> None:
    assert {term_owner(term, ["a"]) for term in range(3 * OWNERS)} == {"a"}


def test_the_position_in_the_roster_is_in_the_term() -> None:
    owners = [term_owner(5 * OWNERS + position, ["a", "b", "c"]) for position in range(OWNERS)]
    assert owners == ["a", "b", "c", *[None] * (OWNERS - 3)]


def test_nobody_owns_a_term_of_an_empty_roster() -> None:
    assert term_owner(3, []) is None
