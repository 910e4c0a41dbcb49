# SPDX-License-Identifier: Apache-2.0
"""Bounds of jobs and users without limits of their own."""

from __future__ import annotations

import pytest

from stoker.agent.state.job_bounds import Bounds, Limit, NodeBounds


def test_by_default_a_user_has_a_quarter_and_a_job_leaves_room() -> None:
    assert Bounds().resolve(8000, 1000) == NodeBounds(2000, Limit(1000), Limit(900))


def test_what_the_file_names_holds_and_zero_is_no_bound() -> None:
    named = Bounds(processes_per_user=5, processes_per_job=0, memory_per_job=70)
    assert named.resolve(8000, 1000) == NodeBounds(5, Limit(0, named=True), Limit(70, named=True))
    assert Bounds(processes_per_user=0).resolve(8000, 1000).user == 0


@pytest.mark.parametrize(
    ("limit", "requested", "enforced", "default"),
    [
        (Limit(), None, None, None),
        (Limit(), 7, 7, None),
        (Limit(100), None, None, 100),  # set where that is free
        (Limit(100), 7, 7, 100),
        (Limit(100), 700, 700, 100),  # the file sets no bound
        (Limit(100, named=True), None, 100, 100),  # enforced everywhere
        (Limit(100, named=True), 700, 100, 100),
        (Limit(0, named=True), 700, 700, None),
    ],
)
def test_a_job_may_request_less_and_for_more_than_a_default(
    limit: Limit, requested: int | None, enforced: int | None, default: int | None
) -> None:
    assert (limit.enforced(requested), limit.default) == (enforced, default)
