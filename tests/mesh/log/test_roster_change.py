# SPDX-License-Identifier: Apache-2.0
"""Changes of the roster: one scheduler at a time, and everybody else keeps his place."""

from __future__ import annotations

from itertools import combinations

import pytest

from stoker.mesh.log import entry as entries
from stoker.mesh.log import roster_change
from stoker.mesh.log.entry import Entry, RosterBlob
from stoker.mesh.log.genesis import SCHEDULERS_MAX, VACANT, RosterMember
from stoker.mesh.log.roster_change import Members

A, B, C, D = (RosterMember(n, f"U{n}") for n in range(1, 5))
THREE = (A, B, C)


def behind(members: Members, *blobs: RosterBlob) -> Members:
    entry = Entry(entries.FORMAT, "c", 1, 1, 1, 0, entries.NO_HASH, 0, 0, b"", blobs)
    return roster_change.following(members, entry)


def majorities(members: Members) -> list[set[RosterMember]]:
    there = [*roster_change.present(members)]
    return [set(each) for each in combinations(there, len(there) // 2 + 1)]


def test_one_leaves_and_the_others_keep_their_places() -> None:
    change = roster_change.leaving(THREE, 2)
    assert change is not None and behind(THREE, change) == (A, VACANT, C)
    assert roster_change.leaving(THREE, 9) is None and roster_change.leaving(THREE, 0) is None


def test_one_enters_at_a_place_that_nobody_had_while_there_is_one() -> None:
    assert behind((A, VACANT, C), roster_change.entering((A, VACANT, C), D)) == (A, VACANT, C, D)
    full = (A, VACANT, *(RosterMember(n, f"U{n}") for n in range(5, 10)))
    assert len(full) == SCHEDULERS_MAX
    assert roster_change.entering(full, D).place == 1
    assert behind(full, roster_change.entering(full, D))[1] == D


def test_all_majorities_before_and_behind_a_change_have_somebody_in_common() -> None:
    members = THREE
    for change in (
        RosterBlob(3, D),
        RosterBlob(0, VACANT),
        RosterBlob(4, A),
        RosterBlob(1, VACANT),
    ):
        after = behind(members, change)
        assert after != members
        assert all(one & other for one in majorities(members) for other in majorities(after))
        members = after


def test_of_two_changes_in_one_entry_the_first_counts() -> None:
    assert behind(THREE, RosterBlob(3, D), RosterBlob(0, VACANT)) == (*THREE, D)


def test_a_replicated_cluster_keeps_one_and_grows_from_one() -> None:
    kept, members = 1, (A,)
    for change in (
        *(RosterBlob(1, B), RosterBlob(2, C), RosterBlob(0, VACANT), RosterBlob(2, VACANT)),
        RosterBlob(3, D),
    ):
        assert not roster_change.defect(members, change, kept)
        after = roster_change.changed(members, change)
        assert all(one & other for one in majorities(members) for other in majorities(after))
        members = after
    assert members == (VACANT, B, VACANT, D)
    assert "keeps 1" in roster_change.defect((A,), RosterBlob(0, VACANT), kept)
    assert roster_change.kept_min(None) == roster_change.KEPT_MIN == 2


@pytest.mark.parametrize(
    ("members", "change", "why"),
    [
        (THREE, RosterBlob(1, D), "has to leave before"),
        (THREE, RosterBlob(3, A), "in the roster already"),
        (THREE, RosterBlob(3, RosterMember(9, "U1")), "in the roster already"),
        (THREE, RosterBlob(3, VACANT), "no scheduler has this place"),
        (THREE, RosterBlob(7, D), "7 places"),
        (THREE, RosterBlob(-1, D), "7 places"),
        (THREE, RosterBlob(3, RosterMember(9, "")), "a number and a key"),
        ((A, VACANT, C), RosterBlob(0, VACANT), "keeps 2"),
        ((A,), RosterBlob(1, B), "one scheduler alone"),
    ],
)
def test_a_change_that_may_not_be_changes_nothing(
    members: Members, change: RosterBlob, why: str
) -> None:
    assert why in roster_change.defect(members, change)
    assert behind(members, change) is members
