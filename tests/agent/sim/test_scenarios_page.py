# SPDX-License-Identifier: Apache-2.0
"""The page of scenarios lists every scenario with its rule, and nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.agent.sim import (
    test_scenarios_authority,
    test_scenarios_ends,
    test_scenarios_eviction,
    test_scenarios_gangs,
    test_scenarios_growth,
    test_scenarios_handover,
    test_scenarios_host,
    test_scenarios_leases,
    test_scenarios_log,
    test_scenarios_memory,
    test_scenarios_moves,
    test_scenarios_reads,
    test_scenarios_roster,
    test_scenarios_terms,
    test_scenarios_upgrade,
    test_scenarios_witnesses,
)
from tests.agent.sim.scenario import SCENARIOS, Scenario

PAGE = Path(__file__).parents[3] / "docs/developer/scenarios.md"
FILES = (
    test_scenarios_authority,
    test_scenarios_eviction,
    test_scenarios_gangs,
    test_scenarios_growth,
    test_scenarios_handover,
    test_scenarios_host,
    test_scenarios_leases,
    test_scenarios_ends,
    test_scenarios_log,
    test_scenarios_memory,
    test_scenarios_moves,
    test_scenarios_reads,
    test_scenarios_roster,
    test_scenarios_terms,
    test_scenarios_upgrade,
    test_scenarios_witnesses,
)


def row(found: Scenario) -> str:
    """Return the row of a scenario; its title is the name of its test in words."""
    file, _, name = found.test.partition("::")
    title = name.removeprefix("test_").replace("_", " ").capitalize()
    return f"| {found.number} | {title} | {found.rule} | `{file}` |"


def test_the_page_has_a_row_for_every_scenario() -> None:
    assert len(SCENARIOS) >= len(FILES)
    wanted = [row(found) for found in sorted(SCENARIOS, key=lambda each: each.number)]
    lines = PAGE.read_text().splitlines()
    assert [line for line in lines if line.startswith("| ") and line[2].isdigit()] == wanted


def test_every_danger_has_a_story_that_fails_without_its_rule() -> None:
    """The first seven are of one node alone; no rule closes the 32nd, a node that was paused."""
    numbers = {found.number for found in SCENARIOS if found.removals}
    assert numbers == set(range(8, 43)) - {32}
    assert [found.test for found in SCENARIOS if not found.removals] == []
