# SPDX-License-Identifier: Apache-2.0
"""Each term has one owner, and one scheduler owns every term."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.mesh.wire.term_owner import TERMS_PER_ROUND, next_term, owner_place, term_owner


def test_the_only_scheduler_owns_every_term() -> None:
    assert {term_owner(term, ["a"]) for term in range(3 * TERMS_PER_ROUND)} == {"a"}


def test_the_place_in_the_roster_is_in_the_term() -> None:
    first = 5 * TERMS_PER_ROUND + 1
    owners = [term_owner(first + place, ["a", "b", "c"]) for place in range(TERMS_PER_ROUND)]
    assert owners == ["a", "b", "c", *[None] * (TERMS_PER_ROUND - 3)]


def test_nobody_owns_the_term_before_the_first_or_one_of_an_empty_roster() -> None:
    assert term_owner(0, ["a", "b"]) is None
    assert term_owner(3, []) is None


@given(st.integers(0, 10**6), st.integers(0, TERMS_PER_ROUND - 1))
def test_the_next_term_of_a_place_is_the_lowest_one_of_its_own(after: int, place: int) -> None:
    found = next_term(after, place)
    assert owner_place(found) == place
    assert [owner_place(term) for term in range(after + 1, found)].count(place) == 0
