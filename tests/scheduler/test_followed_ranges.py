# SPDX-License-Identifier: Apache-2.0
"""The counts of arrays that jobs follow: each end counts once, and each follower is told once."""

from __future__ import annotations

import random

import pytest

from stoker.scheduler.array_indexes import JOBS_MAX
from stoker.scheduler.followed_ranges import (
    FollowedRanges,
    JobRange,
    RangeCounts,
    RangeTold,
    Wanted,
    range_of,
)

NONE = RangeCounts()
ARRAY = JobRange(10, 4)


def test_a_range_is_one_number_that_no_job_has() -> None:
    for found in (ARRAY, JobRange(1, 1), JobRange((1 << 46) - 1, JOBS_MAX)):
        assert range_of(found.number) == found and 1 << 63 <= found.number < 1 << 64
    assert range_of(10) is None and range_of((1 << 63) - 1) is None
    assert (ARRAY.text, JobRange(7, 1).text, ARRAY.last) == ("10-13", "7", 13)


@pytest.mark.parametrize(
    ("wanted", "counts", "verdict"),
    [
        ("success", (3, 0), None), ("success", (4, 0), True), ("success", (0, 1), False),
        ("end", (2, 1), None), ("end", (2, 2), True), ("end", (0, 4), True),
        ("failure", (0, 3), None), ("failure", (3, 1), True), ("failure", (4, 0), False),
    ],
)  # fmt: skip
def test_what_counts_mean_to_each_follower(
    wanted: Wanted, counts: tuple[int, int], verdict: bool | None
) -> None:
    assert RangeCounts(*counts).verdict(wanted, ARRAY.size) is verdict


def test_a_follower_is_told_of_each_end_until_that_is_noted() -> None:
    ranges = FollowedRanges()
    ranges.follow(20, ARRAY.number, "success", NONE)
    ranges.follow(21, ARRAY.number, "end", NONE)
    ranges.note(9, "failed")
    ranges.note(14, "failed")
    assert not [*ranges.due()]
    ranges.note(11, "failed")
    assert [*ranges.due()] == [RangeTold(20, ARRAY.number, False)] == [*ranges.due()]
    ranges.told(20, ARRAY.number)
    assert not [*ranges.due()] and ranges.followers(ARRAY.number) == 1
    for job in (10, 12, 13):
        ranges.note(job, "succeeded")
    assert [*ranges.due()] == [RangeTold(21, ARRAY.number, True)]
    ranges.note(21, "cancelled")
    assert not ranges and not [*ranges.due()] and ranges.counts(ARRAY.number) is None


def test_what_never_becomes_a_job_counts_as_cancelled_all_at_once() -> None:
    ranges = FollowedRanges()
    alone = JobRange(12, 1)
    ranges.follow(20, ARRAY.number, "end", RangeCounts(1, 0))
    ranges.follow(21, alone.number, "success", NONE)
    ranges.cancelled([])
    ranges.cancelled([11, 12])
    assert ranges.counts(ARRAY.number) == RangeCounts(1, 2)
    assert [*ranges.due()] == [RangeTold(21, alone.number, False)]
    ranges.cancelled([30, 31])
    assert ranges.counts(ARRAY.number) == RangeCounts(1, 2)


def test_an_image_has_all_of_them_and_what_is_to_be_told() -> None:
    ranges = FollowedRanges()
    ranges.follow(20, ARRAY.number, "success", NONE)
    ranges.follow(20, JobRange(30, 2).number, "end", NONE)
    ranges.note(10, "lost")
    again = FollowedRanges(ranges.images())
    assert again.images() == ranges.images() and [*again.due()] == [*ranges.due()]
    again.end(20)
    assert not again and not again.images()


@pytest.mark.parametrize("seed", range(8))
def test_counts_equal_those_of_whoever_looks_at_every_job(seed: int) -> None:
    chance = random.Random(seed)
    ends: dict[int, str] = {}
    arrays = [JobRange(1, 30), JobRange(31, 1), JobRange(32, 200), JobRange(400, 7)]
    ranges = FollowedRanges()
    for number, found in enumerate(arrays):
        ranges.follow(1000 + number, found.number, "end", NONE)
    jobs = chance.sample(range(1, 450), 449)
    while jobs:
        if chance.random() < 0.1:
            part = [job for job in range(60, 90) if job in jobs]
            ranges.cancelled(part)
            ends |= dict.fromkeys(part, "cancelled")
            jobs = [job for job in jobs if job not in ends]
        if jobs:
            job, state = jobs.pop(), chance.choice(("succeeded", "failed", "timeout", "lost"))
            ranges.note(job, state)  # type: ignore[arg-type]
            ends[job] = state
        for found in arrays:
            mine = [ends[job] for job in range(found.first, found.last + 1) if job in ends]
            well = mine.count("succeeded")
            assert ranges.counts(found.number) == RangeCounts(well, len(mine) - well)
            told = RangeTold(1000 + arrays.index(found), found.number, True)
            assert (told in ranges.due()) == (len(mine) == found.size)
