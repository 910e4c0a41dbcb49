# SPDX-License-Identifier: Apache-2.0
"""Power limits end with the agent that set them: whole nodes, simulated cards (SIM) and PoCL."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.agent.commands.power_commands import power_command
from stoker.agent.devices.readings import Absent
from stoker.agent.jobs.cpu_quota import v1_cpu
from stoker.agent.power import status
from stoker.agent.power.plan.card import RETURN_SHARE
from stoker.agent.power.setters import record
from stoker.agent.supervise import pids
from stoker.mesh.wire import schema
from stoker.native.errors import StokerError
from stoker.probes.simdriver import libraries, profiles

DEFAULT_W, BUDGET_W = 350, 900
DEVICE = "pocl-0"


def power(node: LiveNode, *words: str) -> None:
    first, *rest = words
    power_command.main([first, "--state", str(node.root), *rest], standalone_mode=False)


def said(node: LiveNode, true: Callable[[status.Status], bool]) -> Callable[[], bool]:
    def look() -> bool:
        try:
            return true(status.read(node.state.run))
        except StokerError:
            return False

    return look


def refused(node: LiveNode, *words: str) -> str:
    with pytest.raises((StokerError, click.ClickException)) as raised:
        power(node, *words)
    return str(raised.value)


def test_a_killed_agents_cards_have_what_they_had_within_ten_seconds(tmp_path: Path) -> None:
    sim = profiles.node("4xL40S", tmp_path / "node", seed=4)
    sim.set_open(True)
    base: dict[str, str] = {}

    def limits() -> list[float]:
        return [sim.truth(i)["now"]["limit_mw"] / 1000 for i in range(4)]

    with live_node(**libraries.environment(tmp_path / "node", [1], base)) as node:
        wait_until(said(node, lambda found: len(found.cards) == 4), "four cards")
        card = status.read(node.state.run).cards[0].id
        check_bounds_of_a_card(node, card)
        power(node, "budget", str(BUDGET_W))
        power(node, "control", "on")
        wait_until(lambda: sum(limits()) <= BUDGET_W + 0.1, "limits within the budget")
        # Nobody is to start another agent meanwhile: the watchdog is alone.
        for name in ("supervisor", "agent"):
            os.kill(pids.find(node.state)[name].pid, signal.SIGKILL)
        wait_until(lambda: limits() == [DEFAULT_W] * 4, "the watchdog restores")
        wait_until(lambda: not record.path(node.state.agent).exists(), "the record goes")


def test_a_lost_card_and_idle_ones_leave_the_budget_to_those_at_work(tmp_path: Path) -> None:
    """The fault of one L40S among mixed cards leads to the limit that the busy card has."""
    busy, lost, budget_w = 0, 3, 3000.0
    rounded_w = budget_w + 8 * 0.001  # each card takes whole milliwatts
    sim = profiles.node("mixed", tmp_path / "node", seed=4)
    sim.set_open(True)
    for place in (busy, 4, 5):
        sim.set_load(place, 0.9, 0.3, 0.0)

    def limit_w(place: int) -> float:
        return float(sim.truth(place)["now"]["limit_mw"]) / 1000

    def set_w() -> float:
        return sum(map(limit_w, range(8)))

    with live_node(**libraries.environment(tmp_path / "node", [1, 2, 3], {})) as node:
        wait_until(said(node, lambda found: len(found.cards) == 8), "eight cards")
        free_w = sim.truth(busy)["now"]["power_w"]
        power(node, "budget", str(budget_w))
        power(node, "control", "on")
        wait_until(lambda: set_w() <= rounded_w, "limits within the budget")
        sim.inject("lost", lost)
        try:
            wait_until(said(node, lambda found: any(c.gone for c in found.cards)), "it is gone")
            # Some of it may go for energy: with the lost card's default limit held and the idle
            # ones thought to be at work, it had half.
            wait_until(lambda: limit_w(busy) >= 0.85 * free_w, "the busy card has what it needs")
            found = status.read(node.state.run)
            shown = node.stoker("power").stdout.decode()
        finally:
            sim.heal()  # else it could not be given back what it had
        held = {card.id: card.holds_w or 0.0 for card in found.cards}
        assert found.committed_w == pytest.approx(sum(held.values()))
        assert found.committed_w <= budget_w + 0.5
        (gone,) = [card for card in found.cards if card.gone]
        assert gone.holds_w == pytest.approx(RETURN_SHARE * DEFAULT_W)
        assert f"{gone.id}: off the bus, draws nothing; {gone.holds_w:.0f} W are reserved" in shown
        assert "idle cards hold their limits: work may begin before another" in shown
        wait_until(
            said(node, lambda found: not any(c.gone for c in found.cards)), "it takes part again"
        )
        wait_until(lambda: set_w() <= rounded_w, "and the budget holds")


def check_bounds_of_a_card(node: LiveNode, card: str) -> None:
    """Each refusal says what is possible; none of them changes anything."""
    assert "the device takes 100 to 350 W" in refused(node, "cap", card, "50")
    assert "the device takes 100 to 350 W" in refused(node, "floor", card, "1000")
    assert "neither a number above 0" in refused(node, "budget", "--", "-5")
    assert "it is not declared" in refused(node, "draws", card, "100")
    assert "no device 'nope'" in refused(node, "draws", "nope", "100")
    assert "1 to 10000 W" in refused(node, "draws", DEVICE, "1e9")
    power(node, "cap", card, "200")
    assert "at least 300 W and at most 200 W" in refused(node, "floor", card, "300")
    power(node, "cap", card, "off")


def test_a_device_without_a_limit_is_held_by_its_jobs_cpu_time() -> None:
    mount = v1_cpu()
    assert not isinstance(mount, Absent), mount
    with live_node() as node:
        group = mount / f"stoker-{node.state.instance}" / f"held-{DEVICE}"
        wait_until(said(node, lambda found: DEVICE in found.absent), "the device")
        power(node, "draws", DEVICE, "100")
        wait_until(said(node, lambda found: len(found.cards) == 1), "it takes part")
        power(node, "budget", "40")
        job = node.submit("sleep", "60", gpu_milli=1000)
        power(node, "control", "on")
        wait_until(lambda: group.is_dir() and bool(processes(group)), "its job is held")
        quota = int((group / "cpu.cfs_quota_us").read_text())
        assert quota <= 0.4 * len(os.sched_getaffinity(0)) * 100_000
        (card,) = status.read(node.state.run).cards
        assert card.id == DEVICE
        wait_until(said(node, lambda found: any(d.done for d in found.decisions)), "it is said")
        agent = node.kill("agent")
        node.wait_for_new("agent", agent)
        wait_until(lambda: bool(processes(group)), "the next agent holds it")
        power(node, "control", "observe")
        wait_until(lambda: not group.exists(), "let go")
        assert node.ask(lambda client: client.get(job)).state == "running"


def processes(group: Path) -> list[str]:
    try:
        return (group / "cgroup.procs").read_text().split()
    except OSError:
        return []


def test_a_device_that_nothing_else_holds_is_held_by_its_jobs_launches(public_folder: Path) -> None:
    """A declared device; what its job launches is a chain of kernels that checks itself."""
    program, stop = public_folder / "held_chain", public_folder / "held_stop"
    source = Path(__file__).with_name("chain.c")
    subprocess.run(["gcc", "-O2", "-o", program, source, "-lOpenCL", "-lpthread"], check=True)

    def declare(node: LiveNode) -> None:
        node.root.mkdir(mode=0o700)
        (node.root / "config.toml").write_text('[[device]]\nid = "fpga-0"\n')

    with live_node("--root-jobs-as", "root", prepare=declare, device_kind="any") as node:
        both = {DEVICE, "fpga-0"}
        wait_until(said(node, lambda found: both <= set(found.absent)), "both devices")
        power(node, "draws", "fpga-0", "100")
        power(node, "budget", "40")
        power(node, "control", "on")
        job = node.submit(str(program), str(stop), gpu_milli=2000, trace="dormant")
        try:
            wait_until(said(node, lambda found: waited(found) > 20), "launches wait")
            full = schema.TracingRequest(job=job, do="mode", mode="full")
            node.ask(lambda client: client.tracing(full))
            before = waited(status.read(node.state.run))
            wait_until(said(node, lambda found: waited(found) > before + 40), "seen to wait")
            (card,) = status.read(node.state.run).cards
            assert card.limit_w is not None and card.limit_w <= 40.5
            assert not card.refused
            power(node, "control", "observe")
            wait_until(said(node, lambda found: not found.cards[0].note), "they are let go")
        finally:
            stop.touch()
        ended = node.wait(job, trace=True)
        assert (ended.state, ended.exit_code) == ("succeeded", 0), node.output(job, "err")
        check_held_time_is_throttled(ended)


def check_held_time_is_throttled(ended: schema.JobView) -> None:
    """Its two threads are held together, while they were watched: that, and not being blocked."""
    assert ended.trace is not None
    (held,) = [each for each in ended.trace["events"] if each["name"] == "launch held back"]
    (device,) = [each for each in ended.trace["devices"] if each["id"] == DEVICE]
    causes = device["causes"]
    assert sum(causes.values()) == device["window_ns"]
    # Both could be woken late by a busy machine, so half of what one of them waited.
    assert held["total_ns"] / 4 <= causes["throttled_ns"] <= held["total_ns"]
    assert "causes.throttled_ns" not in ended.trace["absent"]


def waited(found: status.Status) -> int:
    """Launches, as the agent says."""
    note = next((card.note for card in found.cards if card.id == "fpga-0"), "")
    counts = re.search(r"; (\d+) have waited", note)
    return int(counts[1]) if counts else 0
