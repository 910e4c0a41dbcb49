# SPDX-License-Identifier: Apache-2.0
"""`stoker sim cluster` from seeds to figures and to the story of one run."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stoker.agent.sim import world
from stoker.agent.sim.code_digest import code_digest
from stoker.tui.commands.sim_commands import sim_command


def call(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(sim_command, ["cluster", *words])
    return result.exit_code, result.output


def test_json_has_the_figures_of_all_seeds() -> None:
    code, output = call("--seeds", "4", "--first", "3", "--jobs", "1", "--json")
    told = json.loads(output)
    assert code == 0 and told["simulated"] and told["violations"] == []
    assert told["code"] == code_digest()
    assert told["seeds"] == 4 and told["seeds_per_h"] > 0 and told["state_coverage"] > 1
    assert told["events_per_seed"] > 1000 and told["entries_per_seed"] > 50
    assert len(told["fault_kinds"]) >= 3


@pytest.mark.soak
def test_the_result_does_not_depend_on_the_number_of_processes() -> None:
    told = [json.loads(call("--seeds", "9", "--jobs", jobs, "--json")[1]) for jobs in ("1", "2")]
    for each in told:
        for name in ("elapsed_s", "seeds_per_h", "counted_per_h", "events_per_s"):
            del each[name]
    assert told[0] == told[1]


def test_explain_tells_one_run_in_sentences() -> None:
    code, output = call("--seed", "9", "--explain")
    assert code == 0
    assert "scheduler-1 leads in term" in output and "all faults are over" in output
    assert call("--explain")[0] == 2


def test_a_violation_is_told_and_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "LIVENESS_NS", 0)
    code, output = call("--seeds", "2", "--jobs", "1")
    assert code == 1 and "VIOLATION in seed 0" in output
    code, output = call("--seed", "0", "--explain")
    assert code == 1 and "VIOLATION: " in output
