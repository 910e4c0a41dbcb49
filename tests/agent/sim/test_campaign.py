# SPDX-License-Identifier: Apache-2.0
"""A campaign gives each seed's figures, in order, whoever runs it and whatever it does."""

from __future__ import annotations

import os
import signal

import pytest

from stoker.agent.sim import campaign
from stoker.agent.sim.campaign import CHUNK, figures_of, figures_of_chunk
from stoker.agent.sim.figures import SeedFigures

SEEDS = (9, 109, 209)
"""Seeds of one scheduler, which are the quickest."""


def test_seeds_that_run_apart_are_the_seeds_that_run_here() -> None:
    assert figures_of_chunk(SEEDS) == [figures_of(seed) for seed in SEEDS]


def test_several_processes_give_the_figures_of_one_in_order() -> None:
    seeds = [SEEDS[at % 3] for at in range(CHUNK + 2)]
    assert list(campaign.campaign(seeds, 2)) == list(campaign.campaign(seeds, 1))


def test_a_seed_that_kills_its_process_is_a_violation_of_this_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = campaign._run

    def deadly(seed: int) -> SeedFigures:
        if seed == 109:
            os.kill(os.getpid(), signal.SIGKILL)
        if seed == 309:
            os._exit(3)
        return run(seed)

    expected = [figures_of(seed).violations for seed in (9, 209)]
    monkeypatch.setattr(campaign, "_run", deadly)
    found = figures_of_chunk((9, 109, 209, 309))
    assert [each.seed for each in found] == [9, 109, 209, 309]
    assert [found[0].violations, found[2].violations] == expected
    assert found[1].violations == ("the process ended by SIGKILL",)
    assert found[3].violations == ("the process ended with status 3",)
    assert not found[1].counts
