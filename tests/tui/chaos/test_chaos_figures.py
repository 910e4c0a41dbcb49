# SPDX-License-Identifier: Apache-2.0
"""Figures of faults: ranks are measured times, and few faults decide nothing."""

from __future__ import annotations

import random

import pytest

from stoker.tui.chaos import chaos_figures, faults
from stoker.tui.chaos.chaos_figures import ENOUGH, TARGETS, Round
from stoker.tui.render import chaos_page


def rounds(count: int, seconds: float, fault: str = TARGETS[0].fault) -> list[Round]:
    times = {"elsewhere": seconds, "decides": 0.1, "in_step": 9.0}
    return [Round(fault, "first", 1.0, times, 0, 1) for _ in range(count)]


def test_targets_are_of_faults_that_exist() -> None:
    names = {kind.name for kind in faults.KINDS}
    assert len(names) == len(faults.KINDS)
    assert {target.fault for target in TARGETS} <= names
    for target in TARGETS:
        kind = next(kind for kind in faults.KINDS if kind.name == target.fault)
        assert target.time != "elsewhere" or kind.host_dies


@pytest.mark.parametrize("seed", range(20))
def test_ranks_are_as_a_slow_count_has_them(seed: int) -> None:
    chance = random.Random(seed)
    values = [chance.random() for _ in range(chance.randint(1, 300))]
    found = chaos_figures.ranks(values)
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)):
        at_most = [v for v in values if sum(w <= v for w in values) >= share * len(values)]
        assert found[name] == min(at_most)
    assert found["n"] == len(values)


def test_a_target_is_met_or_missed_by_enough_faults_alone() -> None:
    def first(rows: list[Round]) -> object:
        return chaos_figures.judged(chaos_figures.by_fault(rows))[0]["met"]

    assert first(rounds(ENOUGH, 6.9)) is True
    assert first(rounds(ENOUGH, 7.0)) is False
    assert first(rounds(ENOUGH - 1, 1.0)) is None
    assert first([]) is None
    assert first(rounds(ENOUGH - 2, 1.0) + rounds(2, 8.0)) is False, "one in fifty is more than p99"


def test_frames_of_bad_cables_are_summed_and_told() -> None:
    name, did = "cable of a follower loses frames", {"loss": 0.1, "passed": 9, "lost": 1}
    way = {**did, "frames": 12, "full": 0, "under_way": 2, "late_s": 0.004}
    bad = Round(name, "first", 6.0, {"decides": 0.4}, 0, 0, {"sent": way, "heard": way})
    rows = chaos_figures.by_fault([bad, bad, *rounds(1, 0.4, "agent is killed")])
    other, frames = rows[0], rows[1]["frames"]
    assert "frames" not in other
    assert frames == {"frames": 48, "passed": 36, "lost": 4, "full": 0, "under_way": 8,
                      "late_s": 0.004}  # fmt: skip
    found = {
        "faults": 3, "accepted": 1, "attempts": 1, "operations": 1, "entries": 1,
        "by_fault": rows, "targets": [], "violations": [], "failures": [],
    }  # fmt: skip
    told = f"{name}: 48 frames, 36 passed, 4 lost, 0 too many, 8 under way at its end; the latest"
    assert f"{told} 4.0 ms after it was due" in chaos_page.render(found)


def test_the_page_has_each_fault_and_each_target_that_was_measured() -> None:
    rows = chaos_figures.by_fault(rounds(3, 6.5) + rounds(2, 0.4, "agent is killed"))
    found = {
        "faults": 5, "accepted": 70, "attempts": 71, "operations": 90, "entries": 300,
        "by_fault": rows,
        "targets": chaos_figures.judged(rows), "violations": ["job 3 ran\x1b twice"],
        "failures": [],
    }  # fmt: skip
    page = chaos_page.render(found)
    assert "agent is killed" in page and "6.50" in page
    assert "elsewhere p99: 6.50 s, target below 7 s: too few faults to decide" in page
    assert page.count("target below") == 1
    assert "violation: job 3 ran" in page and "\x1b" not in page
    assert "nothing ran twice" not in page
