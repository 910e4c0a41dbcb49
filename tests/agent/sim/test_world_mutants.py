# SPDX-License-Identifier: Apache-2.0
"""Some faults planted in the shipped Python are noticed by the simulated cluster."""

from __future__ import annotations

from tests.agent.sim.mutants.hunt import hunt
from tests.agent.sim.mutants.planting import planted_text
from tests.agent.sim.mutants.table import COVERED, MUTANTS

SOME = {"answer-early", "batch-any", "key-forgotten"}


def test_some_planted_faults_are_noticed() -> None:
    wanted = [mutant for mutant in MUTANTS if mutant.name in SOME]
    assert len(wanted) == len(SOME)
    assert [caught.name for caught in hunt(wanted, 30) if not caught.what] == []


def test_every_planted_fault_can_be_planted() -> None:
    every = [*MUTANTS, *COVERED]
    assert len({mutant.name for mutant in every}) == len(every)
    for mutant in every:
        assert mutant.before in planted_text(mutant._replace(after=mutant.before)), mutant.name
        assert planted_text(mutant) != planted_text(mutant._replace(after=mutant.before))
