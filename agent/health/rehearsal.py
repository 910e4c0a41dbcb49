# SPDX-License-Identifier: Apache-2.0
"""The rehearsal, which plays the scenarios of faults on a whole node of simulated cards (SIM).

It reports, for each fault, when the agent read it, when it decided, and when the decision was in
the cluster's log. The node is started by `stoker up`, so that a fault passes every part that it
passes on a real node, and the rehearsal reads the agent's log file. All times are CLOCK_BOOTTIME,
in ns. Invariants: all cards are healed between two waves, and the node is always stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stoker.agent.health.examine import MARGIN_C
from stoker.agent.health.scenarios import SCENARIOS, WAVES, Scenario
from stoker.agent.health.watch import now_ns
from stoker.mesh.client.client import Client
from stoker.native import _sim
from stoker.native.errors import StokerError, Unavailable

VERB_S = 60.0
SETTLE_S = 30.0
PATIENCE_S = 20.0
"""The longest wait for all faults of a wave."""
LOOK_S = 0.02
HEAL_S = 1.3
GONE_NS, RESET_S = 1_500_000_000, 12.0
NS = 1_000_000_000
LINE = '"device health: '


class LoggedFinding(NamedTuple):
    """One finding as a line of the agent's log file tells it."""

    device: str
    kind: str
    number: int
    action: str
    reason: str
    read_ns: int
    decided_ns: int
    reported: bool
    """False if the node's report stayed as it was: the card had a trouble at least as severe."""


class Follower:
    """Reads the lines about health that are added to the agent's log file."""

    def __init__(self, path: Path) -> None:
        self.found: list[LoggedFinding] = []
        self.lines = 0
        """The number of lines about health."""
        self.untold = 0
        """The number of Xids that had no line of their own."""
        self._commits: list[tuple[int, int]] = []
        """(time of the decision, time at which it was in the cluster's log) of each report."""
        self._path = path
        self._read = 0

    def follow(self) -> None:
        """Take in the lines that were written since the last call."""
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
            self._read += len(whole) + len(newline)
            for line in whole.decode(errors="replace").splitlines():
                if LINE in line:
                    self.lines += 1
                    self._take(json.loads(line))

    def _take(self, said: Mapping[str, Any]) -> None:
        what = said["event"].partition(": ")[2]
        if what == "committed":
            self._commits.append((said["decided_ns"], said["committed_ns"]))
        elif what.startswith("Xids"):
            self.untold += said["count"]
        elif what == "raised":
            names = {"kind": "signal"}
            self.found.append(
                LoggedFinding(*[said[names.get(n, n)] for n in LoggedFinding._fields])
            )

    def committed(self, found: LoggedFinding) -> int | None:
        """Return the time at which a finding was in the cluster's log; None if it is not yet."""
        return next((at for until, at in self._commits if until >= found.decided_ns), None)


class Rehearsal:
    """One run of all scenarios; `report` has one row for each fault."""

    def __init__(self, node: _sim.Node, follower: Follower, client: Client) -> None:
        self._node, self._follower, self._client = node, follower, client
        count = node.describe()["cards"]
        self._ids = [str(node.truth(place)["model"]["uuid"]) for place in range(count)]
        self.report: list[dict[str, Any]] = []
        self._storms: list[dict[str, Any]] = []

    async def run(self) -> dict[str, Any]:
        """Play all waves, one after the other."""
        await self._settle()
        for wave in range(1, WAVES + 1):
            await self._play([s for s in SCENARIOS if s.wave == wave])
        left = await self._reset()
        return {
            "schema": "stoker/v1",
            "simulated": True,
            "faults": self.report,
            "wrong": [row["name"] for row in self.report if not row["ok"]],
            "late": [row["name"] for row in self.report if row["ok"] and not row["in_time"]],
            "held_after_reset": left,
            "storms": self._storms,
            **summary(self.report),
        }

    async def _settle(self) -> None:
        """Wait until the agent has read every card and has read its counters twice."""
        until = time.monotonic() + SETTLE_S
        while time.monotonic() < until:
            with contextlib.suppress(StokerError):
                views = {each.id: each for each in (await self._client.devices()).devices}
                missing = [id for id in self._ids if id not in views]
                if not missing and await self._are_read(views[self._ids[0]].node):
                    await asyncio.sleep(HEAL_S)
                    return
            await asyncio.sleep(0.2)
        raise Unavailable("the simulated cards were not read in time")

    async def _are_read(self, node: str) -> bool:
        views = [await self._client.readings(node, id) for id in self._ids]
        return all(view.state == "ok" for view in views)

    async def _play(self, wave: list[Scenario]) -> None:
        since = len(self._follower.found)
        lines, untold = self._follower.lines, self._follower.untold
        begins = {each.name: self._inject(each) for each in wave}
        until = time.monotonic() + PATIENCE_S
        ends = time.monotonic() + max(each.spread_s for each in wave)
        seen: dict[str, LoggedFinding] = {}
        while time.monotonic() < until and not self._is_over(wave, seen, ends):
            await asyncio.sleep(LOOK_S)
            self._follower.follow()
            for each in [s for s in wave if s.name not in seen]:
                if not self._is_so(each):
                    begins[each.name] = now_ns()
                match = self._match(each, since)
                if match is not None:
                    seen[each.name] = match
        self.report += [self._row(each, seen.get(each.name), begins[each.name]) for each in wave]
        await self._heal()
        self._follower.follow()
        self._storms += [
            {
                "name": each.name,
                "lines": self._follower.lines - lines,
                "counted_without_line": self._follower.untold - untold,
            }
            for each in wave
            if each.events >= 1000
        ]

    def _is_over(
        self, wave: list[Scenario], seen: Mapping[str, LoggedFinding], ends: float
    ) -> bool:
        waiting = [f for f in seen.values() if f.reported and self._follower.committed(f) is None]
        return len(seen) == len(wave) and not waiting and time.monotonic() >= ends

    def _inject(self, each: Scenario) -> int:
        """Inject a fault; returns the time at which the fault first fulfils its rule."""
        now, begun = self._node.now_ns, now_ns() + int(each.shows_s * NS)
        until = now + int(each.spread_s * NS) if each.spread_s else 0
        self._node.inject(
            each.fault,
            each.card,
            from_ns=now,
            until_ns=until,
            value=each.value,
            count=each.events,
            call=each.call,
        )
        if each.load is not None:
            self._node.set_load(each.card, *each.load)
        return begun

    def _is_so(self, each: Scenario) -> bool:
        """True if the fault shows by now: a die needs time to get near its shutdown temperature."""
        if each.expect != "near_shutdown":
            return True
        truth = self._node.truth(each.card)
        return bool(truth["now"]["die_c"] >= truth["model"]["shutdown_c"] - MARGIN_C)

    def _match(self, each: Scenario, since: int) -> LoggedFinding | None:
        wanted = (self._ids[each.card], each.expect, each.number, each.action)
        found = self._follower.found[since:]
        return next((f for f in found if (f.device, f.kind, f.number, f.action) == wanted), None)

    def _row(self, each: Scenario, found: LoggedFinding | None, begun_ns: int) -> dict[str, Any]:
        held = found is not None and not found.reported
        committed = None if found is None or held else self._follower.committed(found)
        decided_ms = None if found is None else _ms(found.decided_ns - begun_ns)
        return each.told() | {
            "ok": found is not None and (held or committed is not None),
            "period_ms": each.period_ms,
            "detected_ms": None if found is None else _ms(found.read_ns - begun_ns),
            "decided_ms": decided_ms,
            "committed_ms": None if committed is None else _ms(committed - begun_ns),
            "commit_ms": None
            if committed is None or found is None
            else _ms(committed - found.decided_ns),
            "held_before": held,
            "in_time": decided_ms is not None and decided_ms <= each.period_ms,
            "reason": "" if found is None else found.reason,
        }

    async def _heal(self) -> None:
        """End all faults, and wait until the agent has read the counters once after that."""
        self._node.heal()
        for place in range(len(self._ids)):
            self._node.set_load(place, 0, 0, 0)
            self._node.reset(place)
        await asyncio.sleep(HEAL_S)

    async def _reset(self) -> dict[str, str]:
        """Take all cards off the bus and back, which the agent sees as a reset.

        Returns card -> the reason why it still gets no jobs. Some remain: a rule may want more time
        without signals, or another card.
        """
        self._node.inject("lost", -1, until_ns=self._node.now_ns + GONE_NS)
        await asyncio.sleep(RESET_S)
        views = (await self._client.devices()).devices
        held = {each.id: each.unavailable for each in views if each.unavailable}
        return {f"card {place}": held[id] for place, id in enumerate(self._ids) if id in held}


def summary(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the longest times to a decision by telemetry period, and the times of commits."""
    told = [row for row in rows if row["decided_ms"] is not None]
    worst: dict[str, float] = {}
    for row in told:
        name = f"{row['period_ms']:g}"
        worst[name] = max(worst.get(name, 0.0), row["decided_ms"])
    commits = sorted(row["commit_ms"] for row in told if row["commit_ms"] is not None)
    return {
        "worst_decided_ms": worst,
        "commit_ms": {"median": commits[len(commits) // 2], "most": commits[-1]} if commits else {},
    }


def _ms(ns: int) -> float:
    """Return milliseconds, 0 for a negative time: a fault that shows late is timed to LOOK_S."""
    return round(max(0, ns) / 1e6, 1)


@contextlib.contextmanager
def running(state: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Run a node with this state folder, by `stoker up` and `stoker down`."""
    _verb("up", state, environment)
    try:
        yield
    finally:
        _verb("down", state, environment)


def _verb(verb: str, state: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stoker", verb, "--state", str(state)],
        env=dict(environment),
        capture_output=True,
        start_new_session=True,  # Ctrl-C ends this process alone, which then stops the node
        timeout=VERB_S,
        check=False,
    )
    if done.returncode:
        words = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise Unavailable(f"`stoker {verb}` exited with {done.returncode}: {words}")


async def rehearse(node: _sim.Node, state: Path) -> dict[str, Any]:
    """Play all scenarios on the node that runs with this state folder; returns the report."""
    async with Client.open(str(state)) as client:
        return await Rehearsal(node, Follower(state / "log" / "agent.log"), client).run()
