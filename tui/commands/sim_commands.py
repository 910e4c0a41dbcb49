# SPDX-License-Identifier: Apache-2.0
"""The verb `sim`: a table of simulators, each loaded only when it is called."""

from __future__ import annotations

import click

from stoker.tui.commands.lazy_group import LazyGroup

SIMULATORS: dict[str, tuple[str, str]] = {
    "openb": ("stoker.tui.sim.openb_commands", "GPUs allocated on the Alibaba 2023 trace"),
    "power": ("stoker.tui.sim.power_commands", "Power draw of a cluster by placement"),
    "power-loop": ("stoker.agent.power.sim.commands", "The power loop on simulated cards (SIM)"),
    "driver": ("stoker.agent.commands.sim_driver_commands", "Run on simulated drivers (SIM)"),
    "cluster": ("stoker.agent.sim.commands", "Schedulers, agents and a faulty log, by seed (SIM)"),
    "faults": ("stoker.agent.health.sim_commands", "Faults of simulated cards and what follows"),
    "jct": ("stoker.tui.sim.jct_commands", "Completion time, waiting and fairness"),
    "thermal": ("stoker.tui.sim.thermal_commands", "Temperatures and lost work by placement"),
}
"""Simulator -> (module that defines a click command sim_<name>_command, one-line help)."""


@click.group(
    "sim",
    cls=LazyGroup,
    table=SIMULATORS,
    prefix="sim_",
    heading="Simulators",
    context_settings={"show_default": True},
)
def sim_command() -> None:
    """Replay published traces through the scheduler's core; simulate cards and drivers."""
