# SPDX-License-Identifier: Apache-2.0
"""Runs of the power loop on simulated cards (SIM): the same each time, and kept to the budget."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from stoker.agent.power.sim.commands import sim_power_loop_command
from stoker.agent.power.sim.run import PowerResult, PowerRun, run
from stoker.scheduler.sim.plant_draw import draw_node
from stoker.scheduler.sim.power_oracle import bound


def test_a_run_keeps_the_budget_beats_equal_limits_and_stays_below_the_bound() -> None:
    ours, static = run(PowerRun(2, 70, "stoker")), run(PowerRun(2, 70, "static"))
    most = bound(draw_node(2), 0.7 * 5600).work
    assert static.work < ours.work < most
    assert ours.energy_j / ours.work < static.energy_j / static.work
    assert (ours.limits_over, ours.over_seconds) == (0, 0)


@pytest.fixture(scope="module")
def calm() -> PowerResult:
    return run(PowerRun(5, 80, "stoker"))


def test_the_same_run_is_the_same_result() -> None:
    assert run(PowerRun(5, 80, "static")) == run(PowerRun(5, 80, "static"))


@pytest.mark.parametrize(
    "trouble", ["doubled_delay", "lost_samples", "stuck_sensor", "ambient_step"]
)
def test_what_goes_wrong_costs_little_and_breaks_nothing(trouble: str, calm: PowerResult) -> None:
    troubled = run(PowerRun(5, 80, "stoker", trouble))
    assert troubled.work > 0.98 * calm.work
    assert troubled.limits_over == 0
    assert troubled.overshoot_c < 3


def test_the_command_reports_as_json_and_draws(tmp_path: object) -> None:
    plot = f"{tmp_path}/power.svg"
    words = ["--seeds", "3", "--budgets", "80", "--processes", "1", "--json", "--plot", plot]
    done = CliRunner().invoke(sim_power_loop_command, words)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["simulated"] is True
    assert set(report["budgets"]) == {"80", "all"}
    assert set(report["budgets"]["80"]) == {"stoker", "static", "naive"}
    assert set(report["targets"]) >= {"work_of_bound_p5", "overshoot_perturbed_c"}
    with open(plot) as file:  # noqa: PTH123
        assert "budget" in file.read()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--seeds", "5-1"], "the lower number first"),
        (["--seeds", "x"], "neither a number nor a range"),
        (["--budgets", "10"], "28.6 to 100 % of TDP"),
        (["--budgets", "nan"], "28.6 to 100 % of TDP"),
        (["--seeds", "1-2000"], "more than 3000"),
    ],
)
def test_bad_options_are_refused_with_what_is_possible(words: list[str], says: str) -> None:
    with pytest.raises(click.ClickException, match=says):
        sim_power_loop_command.main(words, standalone_mode=False)
