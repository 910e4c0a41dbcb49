# SPDX-License-Identifier: Apache-2.0
"""The most jobs of an array, by the feature level of the cluster."""

from __future__ import annotations

import pytest

from stoker.mesh.replica.works import array_bound
from stoker.mesh.replica.works.array_bound import FIRST_MAX, JOBS_MAX
from stoker.native.errors import Refused
from stoker.scheduler.core import Limits


@pytest.mark.parametrize(("level", "most"), [(1, FIRST_MAX), (2, JOBS_MAX), (3, JOBS_MAX)])
def test_the_level_decides(level: int, most: int) -> None:
    array_bound.check(most, level)
    with pytest.raises(Refused, match=f"has {most + 1} jobs, at most {most} at feature level"):
        array_bound.check(most + 1, level)


def test_a_refusal_names_the_verb_that_helps() -> None:
    with pytest.raises(Refused) as caught:
        array_bound.check(FIRST_MAX + 1, 1)
    assert caught.value.hint is not None and "`stoker cluster upgrade`" in caught.value.hint


def test_the_ends_of_the_largest_array_are_kept_with_the_default_limits() -> None:
    assert Limits().finished * 2 // 3 > JOBS_MAX > FIRST_MAX
