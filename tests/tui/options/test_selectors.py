# SPDX-License-Identifier: Apache-2.0
"""Selectors: the jobs that a text names, and the message for a wrong one."""

import pytest

from stoker.native.errors import BadRequest
from stoker.tui.options import selectors


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        ("3", [3]),
        ("1,4-6", [1, 4, 5, 6]),
        ("2, 2-3,1", [2, 3, 1]),
        ("7-7", [7]),
        ("j35", [35]),
        ("J4-j6,9", [4, 5, 6, 9]),
        ("1-10:4", [1, 5, 9]),
        ("1-9223372036854775806:1000000000000000000", [10**18 * i + 1 for i in range(10)]),
    ],
)
def test_numbers_and_ranges(text: str, jobs: list[int]) -> None:
    assert list(selectors.parse(text).numbers()) == jobs


def test_the_words_stand_alone() -> None:
    assert selectors.parse("last").last
    assert selectors.parse("all").all
    assert selectors.parse("@me").me
    assert selectors.parse("train-7b.x").name == "train-7b.x"
    for mixed in ("1,last", "@me,1", "@you", "train,eval", "a b"):
        with pytest.raises(BadRequest):
            selectors.parse(mixed)


@pytest.mark.parametrize(
    "text",
    ["", "0", "3-1", "-1", "1,", "1.5", "٣", "9" * 20, "3:2", "1-4:0", "1-4:", "1x"],
)
def test_what_selects_nothing_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        selectors.parse(text)


def test_a_range_has_a_maximum() -> None:
    with pytest.raises(BadRequest, match="more than 100000"):
        selectors.parse("1-100001")
    assert len(list(selectors.parse("1-100000").numbers())) == 100_000
