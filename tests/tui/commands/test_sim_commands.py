# SPDX-License-Identifier: Apache-2.0
"""The table of simulators: each is a command with help."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from stoker.tui.commands.sim_commands import SIMULATORS, sim_command

TAKES = {"driver": (), "faults": ("--json",), "cluster": ("--json",)}
"""The options of the simulators that have no plot."""


@pytest.mark.parametrize("name", SIMULATORS)
def test_every_simulator_has_help_and_takes_json_and_plot(name: str) -> None:
    result = CliRunner().invoke(sim_command, [name, "--help"])
    assert result.exit_code == 0, result.output
    for option in TAKES.get(name, ("--json", "--plot")):
        assert option in result.output


def test_help_lists_them_all() -> None:
    output = CliRunner().invoke(sim_command, ["--help"]).output
    assert all(name in output for name in SIMULATORS)


def test_an_unknown_simulator_is_a_wrong_call() -> None:
    assert CliRunner().invoke(sim_command, ["weather"]).exit_code == 2


def test_a_simulator_that_is_nearly_named_is_suggested() -> None:
    assert "Did you mean thermal?" in CliRunner().invoke(sim_command, ["termal"]).output
