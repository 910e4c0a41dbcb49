# SPDX-License-Identifier: Apache-2.0
"""A run counts only if it was large, long and faulty enough; a summary adds up."""

from __future__ import annotations

from stoker.agent.sim.figures import TOLD_MAX, SeedFigures, Shape, summary

SHAPE = Shape(3, 3, 8, 2, 40)
RUN = SeedFigures(1, (), 5000, 200, 30.0, {"crash": 3, "cut": 1, "late": 1}, ("a", "b"), SHAPE, 2)


def test_each_bound_alone_keeps_a_run_from_counting() -> None:
    assert RUN.counts
    assert not RUN._replace(shape=SHAPE._replace(schedulers=2)).counts
    assert not RUN._replace(shape=SHAPE._replace(nodes=7)).counts
    assert not RUN._replace(simulated_s=29.9).counts
    assert not RUN._replace(events=4999).counts
    assert not RUN._replace(entries=199).counts
    assert not RUN._replace(faults={"crash": 9, "cut": 1}).counts
    assert not RUN._replace(faults={"crash": 2, "cut": 1, "late": 1}).counts


def test_a_summary_adds_up() -> None:
    broken = RUN._replace(seed=2, violations=("this", "that"), entries=100, states=("b", "c"))
    told = summary([RUN, broken], 2.0)
    assert (told["seeds"], told["counted"], told["broken_seeds"]) == (2, 1, 1)
    assert told["violations"] == [{"seed": 2, "what": "this"}, {"seed": 2, "what": "that"}]
    assert (told["seeds_per_h"], told["counted_per_h"]) == (3600, 1800)
    assert (told["events_per_s"], told["entries_per_seed"]) == (5000, 150)
    assert told["fault_kinds"] == {"crash": 6, "cut": 2, "late": 2}
    assert told["state_coverage"] == 3 and told["freezes"] == 4


def test_a_summary_names_a_bounded_number_of_violations() -> None:
    broken = RUN._replace(violations=("this",) * (TOLD_MAX + 1))
    told = summary([broken, broken], 1.0)
    assert len(told["violations"]) == TOLD_MAX and told["broken_seeds"] == 2
