# SPDX-License-Identifier: Apache-2.0
"""The rows of a visit: filtered, sorted, and found again after an update."""

from __future__ import annotations

from fakes.top_cluster import answers

from stoker.tui.top.views.catalogue import VIEWS
from stoker.tui.top.visit import Visit, chosen, pattern_fault, place

JOBS = answers().jobs or ()


def numbers(visit: Visit) -> list[int]:
    return [job.job for job in chosen(JOBS, visit)]


def test_a_pattern_and_its_opposite_divide_the_rows() -> None:
    kept = numbers(Visit(VIEWS["jobs"], pattern="running"))
    others = numbers(Visit(VIEWS["jobs"], pattern="!running"))
    assert sorted(kept + others) == sorted(job.job for job in JOBS)
    assert kept == [9, 7]


def test_a_sort_turned_round_is_the_same_rows_backwards() -> None:
    up = numbers(Visit(VIEWS["jobs"], sort="JOB"))
    assert up == [6, 7, 8, 9, 10]
    assert numbers(Visit(VIEWS["jobs"], sort="JOB", down=True)) == up[::-1]


def test_a_row_is_found_by_its_key_and_a_lost_one_keeps_its_place() -> None:
    assert place(JOBS, Visit(VIEWS["jobs"], key="7", cursor=0)) == 3
    assert place(JOBS, Visit(VIEWS["jobs"], key="70", cursor=2)) == 2


def test_a_fault_of_a_pattern_is_told() -> None:
    assert pattern_fault("a.*b") == pattern_fault("!x") == ""
    assert "unterminated" in pattern_fault("[")
