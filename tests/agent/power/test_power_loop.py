# SPDX-License-Identifier: Apache-2.0
"""The power loop of a whole node on simulated NVML (SIM): set, stopped, killed, restored."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.agent.commands import doctor
from stoker.agent.commands.power_commands import power_command
from stoker.agent.power import rules_file, status
from stoker.agent.power.plan.rules import PowerRules
from stoker.agent.power.setters import record
from stoker.agent.supervise import pids
from stoker.native import _sim
from stoker.native.errors import StokerError
from stoker.probes.simdriver import libraries, profiles

CARDS, DEFAULT_W, BUDGET_W = 4, 350, 900


def limits(sim: _sim.Node) -> list[float]:
    return [sim.truth(i)["now"]["limit_mw"] / 1000 for i in range(CARDS)]


def kept(sim: _sim.Node) -> bool:
    return sum(limits(sim)) <= BUDGET_W + 0.1


def given_back(sim: _sim.Node) -> bool:
    return limits(sim) == [DEFAULT_W] * CARDS


def said(node: LiveNode, true: Callable[[status.Status], bool]) -> Callable[[], bool]:
    def look() -> bool:
        try:
            return true(status.read(node.state.run))
        except StokerError:
            return False

    return look


def power(node: LiveNode, *words: str) -> None:
    """`stoker power ...` without a process for it."""
    power_command.main([*words, "--state", str(node.root)], standalone_mode=False)


def refused(node: LiveNode, *words: str) -> str:
    with pytest.raises((StokerError, click.ClickException)) as raised:
        power(node, *words)
    return str(raised.value)


def check_refusals(node: LiveNode) -> None:
    assert "400 to 1400 W can be kept" in refused(node, "budget", "10")
    assert "neither a number above 0" in refused(node, "budget", "nan")
    assert "no device 'nope'" in refused(node, "cap", "nope", "300")
    card = status.read(node.state.run).cards[0].id
    assert "the device takes 100 to 350 W" in refused(node, "cap", card, "1000")
    assert not (node.state.agent / rules_file.NAME).exists()


def check_observed(node: LiveNode, sim: _sim.Node) -> None:
    """Without being told to set anything, it decides, says so, and sets nothing."""
    power(node, "budget", str(BUDGET_W))
    wait_until(said(node, lambda found: bool(found.decisions)), "decisions")
    assert not any(each.done for each in status.read(node.state.run).decisions)
    assert given_back(sim)
    assert not record.path(node.state.agent).exists()


def check_stopped_agent(node: LiveNode, sim: _sim.Node) -> None:
    """A stopped agent's cards are given back; when it goes on it takes charge anew."""
    agent = pids.find(node.state)["agent"].pid
    os.kill(agent, signal.SIGSTOP)
    try:
        wait_until(lambda: given_back(sim), "the watchdog restores")
        wait_until(lambda: not record.path(node.state.agent).exists(), "the record goes")
    finally:
        os.kill(agent, signal.SIGCONT)
    wait_until(lambda: kept(sim) and record.path(node.state.agent).exists(), "in charge again")


def check_all_killed(node: LiveNode, sim: _sim.Node) -> None:
    """With nobody left the record stays, the doctor names it, and the next start restores."""
    for name in ("supervisor", "watchdog", "agent"):
        os.kill(pids.find(node.state)[name].pid, signal.SIGKILL)
    wait_until(lambda: "agent" not in pids.find(node.state), "the agent is gone")
    assert kept(sim)
    (found,) = doctor.checks_of("power.record", node.state)
    assert found.status == "WARN" and "stoker up" in found.hint
    rules_file.write(node.state.agent, PowerRules())
    node.stoker("up")
    wait_until(lambda: given_back(sim), "the next start restores")
    wait_until(lambda: not record.path(node.state.agent).exists(), "the record goes")


def test_cards_are_never_left_as_stoker_set_them(tmp_path: Path) -> None:
    sim = profiles.node("4xL40S", tmp_path / "node", seed=3)
    sim.set_open(True)
    for card in range(CARDS):
        sim.set_load(card, 1.0, 0.3, 0.1)
    base: dict[str, str] = {}
    with live_node(**libraries.environment(tmp_path / "node", [1], base)) as node:
        wait_until(said(node, lambda found: len(found.cards) == CARDS), "four cards")
        check_refusals(node)
        check_observed(node, sim)
        power(node, "control", "on")
        wait_until(lambda: kept(sim), "limits within the budget")
        assert "other cards of 900 W" in node.stoker("power").stdout.decode()
        check_stopped_agent(node, sim)
        check_all_killed(node, sim)
        power(node, "budget", str(BUDGET_W))
        power(node, "control", "on")
        wait_until(lambda: kept(sim), "limits within the budget")
    assert given_back(sim), "down gives back"
