# SPDX-License-Identifier: Apache-2.0
"""The most jobs of an array, by the feature level of the cluster."""

from __future__ import annotations

import pytest

from stoker.mesh.replica.works import array_bound
from stoker.mesh.replica.works.array_bound import MOST
from stoker.native.errors import Refused
from stoker.scheduler.array_indexes import ArrayIndexes, of_numbers, parse
from stoker.scheduler.core import Limits

NONE = ArrayIndexes()


@pytest.mark.parametrize(("level", "most"), [*MOST.items(), (4, MOST[3])])
def test_the_level_decides(level: int, most: int) -> None:
    array_bound.check(tuple(range(most)), NONE, level)
    array_bound.check((), of_numbers(range(most)), level)
    for array, indexes in ((tuple(range(most + 1)), NONE), ((), of_numbers(range(most + 1)))):
        with pytest.raises(Refused, match=f"has {most + 1} jobs, at most {most} at feature level"):
            array_bound.check(array, indexes, level)


def test_a_refusal_names_the_verb_that_helps() -> None:
    with pytest.raises(Refused) as caught:
        array_bound.check(tuple(range(MOST[1] + 1)), NONE, 1)
    assert caught.value.hint is not None and "`stoker cluster upgrade`" in caught.value.hint


def test_a_limit_of_how_many_go_on_needs_a_level_as_well() -> None:
    limited = parse("0-9%2", "array")
    array_bound.check((), limited, 3)
    with pytest.raises(Refused, match=r"no limit of how many jobs .* feature level 2") as caught:
        array_bound.check((), limited, 2)
    assert caught.value.hint is not None and "`stoker cluster upgrade`" in caught.value.hint


def test_the_ends_of_the_largest_array_of_records_are_kept_with_the_default_limits() -> None:
    assert Limits().finished * 2 // 3 > MOST[2] > MOST[1]
