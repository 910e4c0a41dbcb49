# SPDX-License-Identifier: Apache-2.0
"""The ends of an array's jobs in a byte each: exact up to a bound, and none beyond it."""

from __future__ import annotations

from stoker.scheduler.array_ends import KINDS_MAX, REASON_CHARS, ArrayEnd, ArrayEnds

WELL, BAD = ArrayEnd("ended", 0), ArrayEnd("ended", 3)


def test_each_end_is_kept_and_alike_ends_once() -> None:
    ends = ArrayEnds(1000)
    assert not ends and ends.at(7) is None
    for place in range(900):
        ends.note(place, BAD if place % 100 == 7 else WELL)
    ends.note(900, ArrayEnd("killed", None, 9))
    assert (ends.at(6), ends.at(7), ends.at(900)) == (WELL, BAD, ArrayEnd("killed", None, 9))
    assert ends.at(901) is None
    image = ends.image(1)
    assert (len(image.kinds), len(image.codes)) == (3, 1000)
    again = ArrayEnds(1000, image)
    again.note(901, BAD)
    assert (again.at(7), again.at(901), len(again.image(1).kinds)) == (BAD, BAD, 3)


def test_of_an_end_beyond_the_bound_only_the_state_is_known() -> None:
    ends = ArrayEnds(KINDS_MAX + 2)
    for place in range(KINDS_MAX + 2):
        ends.note(place, ArrayEnd(f"reason {place}", 0))
    assert ends.at(KINDS_MAX - 1) == ArrayEnd(f"reason {KINDS_MAX - 1}", 0)
    assert ends.at(KINDS_MAX) is None and ends.at(KINDS_MAX + 1) is None
    assert len(ends.image(1).kinds) == KINDS_MAX


def test_a_long_reason_is_cut() -> None:
    ends = ArrayEnds(1)
    ends.note(0, ArrayEnd("x" * 999))
    assert ends.at(0) == ArrayEnd("x" * REASON_CHARS)
