# SPDX-License-Identifier: Apache-2.0
"""Indexes of arrays as words, numbers and runs: all three say the same."""

from __future__ import annotations

import random

import pytest

from stoker.native.errors import BadRequest
from stoker.scheduler import array_indexes
from stoker.scheduler.array_indexes import JOBS_MAX, RUNS_MAX

WORDS = {
    "7": (7,),
    "0-3": (0, 1, 2, 3),
    "0-9:4": (0, 4, 8),
    "7,1-2,5": (7, 1, 2, 5),
    "1-1:5": (1,),
    "4-8:4": (4, 8),
}


@pytest.mark.parametrize(("words", "numbers"), WORDS.items())
def test_words_are_numbers(words: str, numbers: tuple[int, ...]) -> None:
    for limit in (0, 3):
        found = array_indexes.parse(words + (f"%{limit}" if limit else ""), "--array")
        assert (tuple(found), found.size, found.most) == (numbers, len(numbers), limit)
        assert [found.at(place) for place in range(found.size)] == list(numbers)
        assert array_indexes.parse(found.text, "--array") == found


@pytest.mark.parametrize("seed", range(20))
def test_numbers_are_runs_in_their_order(seed: int) -> None:
    chance, numbers = random.Random(seed), list[int]()
    while len(numbers) < 60:
        first, step = chance.randrange(1000), chance.choice((1, 1, 2, 7))
        numbers += range(first, first + step * chance.randint(1, 12), step)
    found = array_indexes.of_numbers(numbers)
    assert list(found) == numbers and found.size == len(numbers)
    assert [found.at(place) for place in range(len(numbers))] == numbers
    assert tuple(array_indexes.parse(found.text, "--array")) == tuple(numbers)


def test_a_row_of_numbers_is_one_run() -> None:
    assert len(array_indexes.of_numbers(range(JOBS_MAX)).runs) == 1
    assert not array_indexes.of_numbers(()) and not array_indexes.parse("", "--array")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("x", "is not a list"),
        ("3-1", "is empty"),
        ("0-4:0", "is empty"),
        ("1,,2", "is not a list"),
        ("0-9%0", "how many of its jobs go on at once"),
        ("0-9%2%3", "how many of its jobs go on at once"),
        (f"0-{JOBS_MAX}", f"more than {JOBS_MAX} jobs"),
        (",".join(["1"] * (RUNS_MAX + 1)), f"at most {RUNS_MAX}"),
    ],
)
def test_what_is_no_list_is_refused(words: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        array_indexes.parse(words, "--array")
