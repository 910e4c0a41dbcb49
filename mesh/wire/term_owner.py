# SPDX-License-Identifier: Apache-2.0
"""The owner of a term: the only member of the roster that may sign for it.

Owns the arithmetic of terms, so that nodes and replicas never disagree about an owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

OWNERS = 8
"""A term is a round times this number, plus the position of its owner in the roster."""

T = TypeVar("T")


def term_owner(term: int, members: Sequence[T]) -> T | None:
    """Return the member that owns a term; None if the roster has no such position.

    Every term belongs to the only member of a roster of one.
    """
    if len(members) == 1:
        return members[0]
    position = term % OWNERS
    return members[position] if position < len(members) else None
