# SPDX-License-Identifier: Apache-2.0
"""The verb `sim`: a table of simulators, each loaded only when it is called."""

from __future__ import annotations

import importlib

import click

SIMULATORS: dict[str, tuple[str, str]] = {
    "openb": ("stoker.tui.sim.openb_commands", "GPUs allocated on the Alibaba 2023 trace"),
    "power": ("stoker.tui.sim.power_commands", "Power draw of a cluster by placement"),
    "power-loop": ("stoker.agent.power.sim.commands", "The power loop on simulated cards (SIM)"),
    "driver": ("stoker.agent.commands.sim_driver_commands", "Run on simulated drivers (SIM)"),
    "faults": ("stoker.agent.health.sim_commands", "Faults of simulated cards and what follows"),
    "jct": ("stoker.tui.sim.jct_commands", "Completion time, waiting and fairness"),
    "thermal": ("stoker.tui.sim.thermal_commands", "Temperatures and lost work by placement"),
}
"""Simulator -> (module that defines a click command sim_<name>_command, one-line help)."""


class SimGroup(click.Group):
    """A click group that imports a simulator's module when it is called, not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SIMULATORS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SIMULATORS:
            return None
        module = importlib.import_module(SIMULATORS[cmd_name][0])
        command = getattr(module, f"sim_{cmd_name.replace('-', '_')}_command")
        assert isinstance(command, click.Command), f"{module.__name__}: {cmd_name} is no command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, text) for name, (_, text) in SIMULATORS.items()]
        if rows:
            with formatter.section("Simulators"):
                formatter.write_dl(rows)


@click.group("sim", cls=SimGroup)
def sim_command() -> None:
    """Replay published traces through the scheduler's core; simulate cards and drivers."""
