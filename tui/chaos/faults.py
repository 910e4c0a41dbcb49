# SPDX-License-Identifier: Apache-2.0
"""The kinds of fault: which host is hit, how the fault begins, and how it ends.

Each is done to real processes, cables and files of one host. Owns that the end of a fault undoes
its beginning, also where the fault was interrupted half-way.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from stoker.native.errors import Unavailable
from stoker.tui.chaos import clocks, disks
from stoker.tui.chaos.cable_process import DIRECTIONS
from stoker.tui.chaos.cables import BadCable
from stoker.tui.chaos.frame_queue import CableQuality
from stoker.tui.demo.network_hosts import Host

Role: TypeAlias = Literal["leader", "follower", "log"]
"""The host whose scheduler leads; the one that leads nothing; the one whose broker leads the log.
"""
Step: TypeAlias = Callable[["Hit"], Awaitable[None]]

SCHEDULER, BROKER, AGENT = "scheduler", "nats-server", "agent"
STOPPED_S = (0.1, 30.0)
APART_S = (0.5, 20.0)
FLAPS, FLAP_S = 8, (0.05, 1.0)
BAD_S = (5.0, 20.0)
LOSS, DELAY_S, JITTER = (0.01, 0.3), (0.005, 0.3), 0.5
"""A cable loses such a share of frames, or delays each by such a time and by up to JITTER times
that more or less."""
SAID_S, POLL_S = 10.0, 0.1
"""A scheduler says within this time after a boot which of its files it cannot read."""
_REMOVE = re.compile(r'"error": "(?:[^"]*, remove (/[^" ]+)"|(/[^" ]+) has lost [^"]*Move it away)')
POWER_S = (0.0, 2.0)
"""A host without power stays so at least until its jobs run elsewhere, and so much longer."""


class Hit(NamedTuple):
    """The host that a fault is done to, the others, and the chance of this run."""

    host: Host
    others: tuple[Host, ...]
    chance: random.Random
    cables: list[BadCable]
    """The bad cable of the host; none before it is put in, or in other faults."""


class FaultKind(NamedTuple):
    """A kind of fault, as reports name it."""

    name: str
    role: Role
    begin: Step
    end: Step
    lasts_s: tuple[float, float] = (0.0, 0.0)
    """The least and the most time from its beginning to its end."""
    host_dies: bool = False
    """True if nothing of the host runs on, so that its jobs run elsewhere before the fault ends."""
    sets_date: bool = False
    """True if the times in records are not those of this machine from then on."""
    spoils_cable: bool = False
    """True if frames pass through a process for its time."""


async def _nothing(hit: Hit) -> None:
    pass


async def _lose_power(hit: Hit) -> None:
    hit.host.cut()
    await asyncio.to_thread(hit.host.lose_power)


async def _boot(hit: Hit) -> None:
    hit.host.plug_in()
    await asyncio.to_thread(hit.host.stoker, "up")


async def _boot_by_the_book(hit: Hit) -> None:
    """Boot a host whose files are damaged, and remove those that its scheduler says to remove."""
    log = hit.host.state / "log" / "scheduler.log"
    known = log.stat().st_size
    await _boot(hit)
    for _ in range(int(SAID_S / POLL_S)):
        with log.open() as file:
            file.seek(known)
            if found := _REMOVE.search(file.read()):
                Path(found[1] or found[2]).unlink()
                return
        await asyncio.sleep(POLL_S)


async def _shut_down(hit: Hit) -> None:
    await asyncio.to_thread(hit.host.stoker, "down")


async def _fill(hit: Hit) -> None:
    await asyncio.to_thread(disks.fill, hit.host)


async def _empty(hit: Hit) -> None:
    disks.empty(hit.host)


async def _cut(hit: Hit) -> None:
    hit.host.cut()


async def _plug_in(hit: Hit) -> None:
    hit.host.plug_in()


async def _flap(hit: Hit) -> None:
    for _ in range(FLAPS):
        hit.host.cut()
        await asyncio.sleep(hit.chance.uniform(*FLAP_S))
        hit.host.plug_in()
        await asyncio.sleep(hit.chance.uniform(*FLAP_S))


async def _set_date(hit: Hit) -> None:
    clocks.set_date(hit.host, clocks.step(hit.chance))


async def _set_date_often(hit: Hit) -> None:
    for _ in range(FLAPS):
        await _set_date(hit)
        await asyncio.sleep(hit.chance.uniform(*FLAP_S))


async def _set_date_right(hit: Hit) -> None:
    clocks.set_date(hit.host, 0.0)


async def _kill_among_wrong_dates(hit: Hit) -> None:
    """Let a host lead next that has a wrong date from the first moment on."""
    for other in hit.others:
        clocks.set_date(other, clocks.step(hit.chance))
    await _signal(SCHEDULER, signal.SIGKILL)(hit)


async def _set_dates_right(hit: Hit) -> None:
    for other in hit.others:
        clocks.set_date(other, 0.0)


async def _mute(hit: Hit) -> None:
    hit.host.unheard_by(hit.others)


async def _unmute(hit: Hit) -> None:
    hit.host.heard_by(hit.others)


async def _deafen(hit: Hit) -> None:
    for other in hit.others:
        other.unheard_by([hit.host])


async def _undeafen(hit: Hit) -> None:
    for other in hit.others:
        other.heard_by([hit.host])


def _losing(chance: random.Random) -> CableQuality:
    return CableQuality(loss=chance.uniform(*LOSS))


def _slow(chance: random.Random) -> CableQuality:
    delay_s = chance.uniform(*DELAY_S)
    return CableQuality(0.0, delay_s, chance.uniform(0.0, JITTER * delay_s))


def _spoil(quality: Callable[[random.Random], CableQuality], directions: tuple[str, ...]) -> Step:
    async def spoil(hit: Hit) -> None:
        drawn = quality(hit.chance)
        cable = BadCable(hit.host, dict.fromkeys(directions, drawn), hit.chance.getrandbits(32))
        hit.cables.append(cable)
        await asyncio.to_thread(cable.put_in)

    return spoil


async def _mend(hit: Hit) -> None:
    for cable in hit.cables:
        await asyncio.to_thread(cable.mend)


def _power_and_bits(pattern: str) -> Step:
    """Return the step that takes a host's power and flips one bit in each of its files that match,
    as a failing disk does."""

    async def damage(hit: Hit) -> None:
        await _lose_power(hit)
        for path in sorted(hit.host.state.glob(pattern)):
            data = bytearray(path.read_bytes())
            if data:
                data[hit.chance.randrange(len(data))] ^= 1 << hit.chance.randrange(8)
                path.write_bytes(data)

    return damage


def _signal(program: str, number: signal.Signals) -> Step:
    async def send(hit: Hit) -> None:
        pid = hit.host.program(program)
        if not pid and number != signal.SIGCONT:
            raise Unavailable(f"{hit.host.name} has no {program} to send {number.name} to")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number) if pid else None

    return send


def _killed(name: str, role: Role, program: str) -> FaultKind:
    return FaultKind(name, role, _signal(program, signal.SIGKILL), _nothing)


def _stopped(name: str, role: Role, program: str) -> FaultKind:
    begin, end = _signal(program, signal.SIGSTOP), _signal(program, signal.SIGCONT)
    return FaultKind(name, role, begin, end, STOPPED_S)


def _dated(name: str, role: Role) -> FaultKind:
    return FaultKind(name, role, _set_date, _set_date_right, APART_S, sets_date=True)


def _bad_cables(
    who: str, role: Role, ways: tuple[str, ...] = DIRECTIONS, whose: str = ""
) -> Iterator[FaultKind]:
    """Yield the faults of a cable that loses frames, and of one that is slow; `whose` says which
    frames, if not all."""
    slow = f"is slow for {whose}" if whose else "is slow"
    for does, quality in ((f"loses {whose or 'frames'}", _losing), (slow, _slow)):
        name, spoil = f"cable of {who} {does}", _spoil(quality, ways)
        yield FaultKind(name, role, spoil, _mend, BAD_S, spoils_cable=True)


def _damaged(name: str, pattern: str) -> FaultKind:
    """Return a fault of a host without power, and of its disk."""
    damage = _power_and_bits(pattern)
    return FaultKind(name, "follower", damage, _boot_by_the_book, host_dies=True)


KINDS = (
    FaultKind("host of a follower dies", "follower", _lose_power, _boot, POWER_S, host_dies=True),
    FaultKind("host of the leader dies", "leader", _lose_power, _boot, POWER_S, host_dies=True),
    FaultKind("host of the log's leader dies", "log", _lose_power, _boot, POWER_S, host_dies=True),
    _damaged("copy of the log is damaged", "nats/**/SCHED_LOG/msgs/*.blk"),
    _damaged("records of a scheduler are damaged", "scheduler/log"),
    _damaged("entries of a scheduler are damaged", "scheduler/held"),
    FaultKind("host of the leader restarts", "leader", _shut_down, _boot),
    _killed("scheduler that leads is killed", "leader", SCHEDULER),
    _killed("scheduler that follows is killed", "follower", SCHEDULER),
    _killed("broker that leads the log is killed", "log", BROKER),
    _killed("broker that follows is killed", "follower", BROKER),
    _killed("agent is killed", "follower", AGENT),
    _stopped("scheduler that leads stands still", "leader", SCHEDULER),
    _stopped("broker that leads the log stands still", "log", BROKER),
    _stopped("agent stands still", "follower", AGENT),
    FaultKind("host of the leader is cut off", "leader", _cut, _plug_in, APART_S),
    FaultKind("host of a follower is cut off", "follower", _cut, _plug_in, APART_S),
    FaultKind("host of the log's leader is cut off", "log", _cut, _plug_in, APART_S),
    FaultKind("host of the leader is not heard", "leader", _mute, _unmute, APART_S),
    FaultKind("host of the log's leader is not heard", "log", _mute, _unmute, APART_S),
    FaultKind("host of the leader hears nobody", "leader", _deafen, _undeafen, APART_S),
    FaultKind("host of the log's leader hears nobody", "log", _deafen, _undeafen, APART_S),
    FaultKind("disk of the leader is full", "leader", _fill, _empty, APART_S),
    FaultKind("disk of the log's leader is full", "log", _fill, _empty, APART_S),
    FaultKind("disk of a follower is full", "follower", _fill, _empty, APART_S),
    FaultKind("cable of the leader flaps", "leader", _flap, _plug_in),
    FaultKind("cable of the log's leader flaps", "log", _flap, _plug_in),
    *_bad_cables("a follower", "follower"),
    *_bad_cables("the leader", "leader"),
    *_bad_cables("the log's leader", "log"),
    *_bad_cables("the leader", "leader", ("sent",), "what it sends"),
    *_bad_cables("the log's leader", "log", ("sent",), "what it sends"),
    *_bad_cables("the leader", "leader", ("heard",), "what it hears"),
    *_bad_cables("the log's leader", "log", ("heard",), "what it hears"),
    _dated("clock of the leader is set", "leader"),
    _dated("clock of the log's leader is set", "log"),
    _dated("clock of a follower is set", "follower"),
    FaultKind(
        "clock of the leader is set again and again",
        "leader",
        _set_date_often,
        _set_date_right,
        sets_date=True,
    ),
    FaultKind(
        "leader is killed, the others' clocks are wrong",
        "leader",
        _kill_among_wrong_dates,
        _set_dates_right,
        APART_S,
        sets_date=True,
    ),
)


def chosen(words: tuple[str, ...]) -> tuple[FaultKind, ...]:
    """Return the kinds whose names contain one of the words; all without words."""
    return tuple(kind for kind in KINDS if not words or any(word in kind.name for word in words))
