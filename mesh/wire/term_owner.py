# SPDX-License-Identifier: Apache-2.0
"""The owner of a term: the only scheduler of the roster that may sign for it.

Owns the arithmetic of terms, so that nodes and replicas never disagree about an owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

TERMS_PER_ROUND = 8
"""Each scheduler owns one term of every round, by its place in the roster, so that two schedulers
never take one term."""

T = TypeVar("T")


def owner_place(term: int) -> int:
    """Return the place in the roster of the owner of a term, from 0."""
    return (term - 1) % TERMS_PER_ROUND


def next_term(after: int, place: int) -> int:
    """Return the lowest term beyond `after` that the scheduler at this place owns."""
    return after + 1 + (place - after) % TERMS_PER_ROUND


def term_owner(term: int, members: Sequence[T]) -> T | None:
    """Return the owner of a term, of a roster in order; None if the roster has no such place.

    The only scheduler of a roster owns every term.
    """
    if len(members) == 1:
        return members[0]
    place = owner_place(term)
    return members[place] if term > 0 and place < len(members) else None
