# SPDX-License-Identifier: Apache-2.0
"""`stoker sim driver`: run any command on a node of simulated cards.

The node is one file in its own folder, which is removed when the command has ended. The command
loads the simulated libraries through its environment only, so the machine stays as it is. The next
run removes and names what a killed run left.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from stoker.native import _sim
    from stoker.probes.simdriver.faults import Fault

Load = tuple[int, float, float, float]
_CPUS = re.compile(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*", re.ASCII)
OPEN_TO_ALL = 0o666
"""The file mode of a node whose cards all users share; otherwise others get copies."""


def _loads(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> list[Load]:
    return [_load(text) for text in given]


def _load(text: str) -> Load:
    """Parse `all:0.9,0.5,0.2`: card, then shares of time, of bandwidth and of memory-bound work."""
    card, _, shares = text.partition(":")
    try:
        index = -1 if card == "all" else int(card)
        numbers = [float(word) for word in shares.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is no CARD:COMPUTE[,MEMORY[,BOUND]]") from None
    numbers += [0.0] * (3 - len(numbers))
    if len(numbers) != 3 or not all(0 <= number <= 1 for number in numbers) or index < -1:
        raise click.BadParameter(f"{text!r}: shares are up to three numbers from 0 to 1")
    return index, numbers[0], numbers[1], numbers[2]


def _numa_nodes(
    ctx: click.Context, param: click.Parameter, given: tuple[str, ...]
) -> dict[int, str]:
    """Parse `0:0-3`: a NUMA node, then its CPUs as the kernel lists them."""
    found: dict[int, str] = {}
    for text in given:
        node, _, cpus = text.partition(":")
        if not node.isdecimal() or not _CPUS.fullmatch(cpus) or int(node) in found:
            raise click.BadParameter(f"{text!r} is no NODE:CPUS such as 0:0-3, each node once")
        found[int(node)] = cpus
    return found


@click.command("driver", context_settings={"allow_interspersed_args": False})
@click.option("--profile", default="8xH200", help="Simulated cards.")
@click.option("--list", "listed", is_flag=True, help="List profiles and exit.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, help="Seed of the cards.")
@click.option(
    "--numa",
    "numa_nodes",
    multiple=True,
    callback=_numa_nodes,
    metavar="NODE:CPUS",
    help="CPUs of this machine that are a NUMA node of the cards: 0:0-3; repeatable.",
)
@click.option("--virtual", is_flag=True, help="Advance time only by --settle and calls.")
@click.option(
    "--settle",
    "settle_s",
    type=click.FloatRange(0, 1e6),
    default=0.0,
    help="Seconds under load before the command starts; needs --virtual.",
)
@click.option(
    "--fault",
    "script",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="Script of faults to play.",
)
@click.option(
    "--load",
    "loads",
    multiple=True,
    callback=_loads,
    metavar="CARD:COMPUTE[,MEMORY[,BOUND]]",
    help="Load of a card or of `all`, as shares from 0 to 1; repeatable.",
)
@click.option(
    "--latency-us", type=click.FloatRange(0, 1e7), default=0.0, help="Latency of driver calls."
)
@click.option(
    "--open", "is_open", is_flag=True, help="Share the cards among all users, without root."
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def sim_driver_command(  # noqa: PLR0917
    profile: str,
    listed: bool,
    seed: int,
    numa_nodes: dict[int, str],
    virtual: bool,
    settle_s: float,
    script: Path | None,
    loads: list[Load],
    latency_us: float,
    is_open: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND against simulated drivers (SIM): NVML, AMD SMI, Level Zero, CUDA."""
    if listed:
        _list()
        return
    if not command:
        raise click.UsageError("no command; put it after --")
    if settle_s and not virtual:
        raise click.UsageError("--settle needs --virtual: real time cannot be hurried")
    faults = _script(script)
    running: list[subprocess.Popen[bytes]] = []
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers[:2]:
        signal.signal(number, lambda caught, _: _pass_on(running, caught))
    folder, lock = _folder()
    try:
        node = _node(folder / "node", profile, virtual, seed)
        _prepare(node, loads, faults)
        _place(folder, numa_nodes)
        node.set_latency(round(latency_us * 1e3))
        node.set_open(is_open)
        if is_open:
            (folder / "node").chmod(OPEN_TO_ALL)
        node.advance(round(settle_s * 1e9))
        sys.exit(_run(_Run(command, folder / "node", lock, faults), node, running))
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)
        for number, handler in before.items():
            signal.signal(number, handler)


def _place(folder: Path, numa_nodes: dict[int, str]) -> None:
    from stoker.probes.simdriver import numa

    numa.write(folder, numa_nodes)


def _list() -> None:
    from stoker.probes.simdriver import profiles

    for name in profiles.names():
        cards = profiles.load(name)
        counts: dict[str, int] = {}
        for card in cards:
            counts[card["name"]] = counts.get(card["name"], 0) + 1
        click.echo(f"{name:12} " + ", ".join(f"{n} x {model}" for model, n in counts.items()))


def _script(path: Path | None) -> list[Fault]:
    from stoker.probes.simdriver import faults

    return faults.read(path) if path else []


def _folder() -> tuple[Path, int]:
    from stoker.probes.simdriver import folder

    for left in folder.sweep():
        click.echo(f"SIM: removed {left}, which a killed run had left", err=True)
    return folder.make()


def _node(path: Path, profile: str, virtual: bool, seed: int) -> _sim.Node:
    from stoker.probes.simdriver import profiles

    return profiles.node(profile, path, virtual=virtual, seed=seed)


def _prepare(node: _sim.Node, loads: list[Load], script: list[Fault]) -> None:
    from stoker.probes.simdriver import faults

    cards: int = node.describe()["cards"]
    for card, compute, memory, bound in loads:
        if card >= cards:
            raise click.BadParameter(f"no card {card}: the profile has {cards}")
        for index in range(cards) if card < 0 else (card,):
            node.set_load(index, compute, memory, bound)
    faults.inject(node, script)


class _Run(NamedTuple):
    """One run: the command, the node's file, the lock and the faults."""

    command: tuple[str, ...]
    path: Path
    lock: int
    """The folder's lock, which the command inherits."""
    faults: list[Fault]


def _run(run: _Run, node: _sim.Node, running: list[subprocess.Popen[bytes]]) -> int:
    """Run the command and return its exit status, as a shell does."""
    from stoker.probes.simdriver import faults, libraries

    node_facts: dict[str, Any] = node.describe()
    vendors = {node.truth(card)["model"]["vendor"] for card in range(node_facts["cards"])}
    environment = libraries.environment(run.path, vendors, None, faults.missing(run.faults))
    click.echo(f"SIM: {node_facts['profile']}, {node_facts['cards']} simulated cards", err=True)
    try:
        running.append(subprocess.Popen(run.command, env=environment, pass_fds=[run.lock]))
    except OSError as wrong:
        raise click.ClickException(f"{run.command[0]}: {wrong.strerror}") from None
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal signals the command as well
    status = running[0].wait()
    return 128 - status if status < 0 else status


def _pass_on(running: list[subprocess.Popen[bytes]], caught: int) -> None:
    """Pass a signal to the command; before it has started, end this process."""
    if not running:
        sys.exit(128 + caught)
    running[0].send_signal(caught)
