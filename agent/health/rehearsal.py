# SPDX-License-Identifier: Apache-2.0
"""Plays the scenarios on simulated cards (SIM) and notes what the watch makes of each, and when.

Relied on by `stoker sim faults`. Runs in the environment of a simulated node: the vendors' own
bindings, the sampler's threads and the watch are those of the agent; only the mesh is not there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.agent.devices.amd import Amd
from stoker.agent.devices.intel import Intel
from stoker.agent.devices.nvidia import Nvidia
from stoker.agent.devices.registry import Devices
from stoker.agent.health.examine import MARGIN_C
from stoker.agent.health.scenarios import FAST, SCENARIOS, WAVES, Scenario
from stoker.agent.health.verdict import Finding
from stoker.agent.health.watch import Watch, World
from stoker.native import _sim
from stoker.native.errors import Unavailable

SETTLE_S = 10.0
PATIENCE_S = 20.0
"""Longest wait for all faults of a wave."""
HEAL_S = 1.3
GONE_NS, RESET_S = 1_500_000_000, 12.0
NS = 1_000_000_000


class Rehearsal:
    """One run; `report` is what came of it."""

    def __init__(self, folder: Path) -> None:
        self._node = _sim.Node.open()
        config: Mapping[str, Any] = {}
        vendors = [Nvidia(config), Amd(config), Intel(config)]
        self._devices = Devices(vendors, lambda pid: False, folder / "devices.json", "rehearsal")
        self._devices.scan()
        self._ids = self._by_place()
        self.report: list[dict[str, Any]] = []
        world = World(
            folder,
            "rehearsal",
            self._devices.samplers,
            self._devices.addresses,
            attempts=lambda device: ((1, 1),),
            says=lambda holds, warnings, drain: None,
            end=lambda keys, reason: None,
        )
        self._watch = Watch(world, note=self._note)
        self._found: list[tuple[float, Finding]] = []

    async def run(self) -> dict[str, Any]:
        """All waves, one after the other."""
        await self._settle()
        watching = asyncio.create_task(self._watch.run())
        await asyncio.sleep(1.5)
        for wave in range(1, WAVES + 1):
            await self._play([s for s in SCENARIOS if s.wave == wave])
        left = await self._reset()
        watching.cancel()
        self._devices.close()
        return {
            "schema": "stoker/v1",
            "simulated": True,
            "faults": self.report,
            "wrong": [row["name"] for row in self.report if not row["ok"]],
            "held_after_reset": left,
            "counters": {name: n for name, n in self._watch.counters.items() if n},
        }

    def _by_place(self) -> list[str]:
        """Place in the simulated node -> device id, by the PCI address of each."""
        at = {address: id for id, address in self._devices.addresses().items()}
        places = range(self._node.describe()["cards"])
        buses = [self._node.truth(place)["model"]["bus_id"] for place in places]
        try:
            return [at[bus[4:].lower()] for bus in buses]
        except KeyError as error:
            raise Unavailable(f"a simulated card was not found: {error}") from None

    def _note(self, finding: Finding) -> None:
        self._found.append((time.monotonic(), finding))

    async def _settle(self) -> None:
        until = time.monotonic() + SETTLE_S
        while time.monotonic() < until:
            await asyncio.sleep(0.1)
            if self._devices.samplers.settled:
                return

    async def _play(self, wave: list[Scenario]) -> None:
        begun = time.monotonic()
        since = len(self._found)
        for each in wave:
            self._inject(each)
        begins = dict.fromkeys((each.name for each in wave), begun)
        waiting = list(wave)
        seen: dict[str, tuple[float, Finding]] = {}
        while waiting and time.monotonic() - begun < PATIENCE_S:
            await asyncio.sleep(0.02)
            for each in list(waiting):
                if not self._is_so(each):
                    begins[each.name] = time.monotonic()
                match = self._match(each, since)
                if match is not None:
                    seen[each.name] = match
                    waiting.remove(each)
        self.report += [self._row(each, seen.get(each.name), begins[each.name]) for each in wave]
        await self._heal()

    def _inject(self, each: Scenario) -> None:
        now = self._node.now_ns
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

    def _is_so(self, each: Scenario) -> bool:
        """Heat takes its time: the fault is there when the die is as hot as that."""
        if each.expect != "near_shutdown":
            return True
        truth = self._node.truth(each.card)
        return bool(truth["now"]["die_c"] >= truth["model"]["shutdown_c"] - MARGIN_C)

    def _match(self, each: Scenario, since: int) -> tuple[float, Finding] | None:
        for at, found in self._found[since:]:
            told = (found.device, found.kind, found.number, found.action)
            if told == (self._ids[each.card], each.expect, each.number, each.action):
                return at, found
        return None

    @staticmethod
    def _row(each: Scenario, seen: tuple[float, Finding] | None, begun: float) -> dict[str, Any]:
        row = each.told()
        return row | {
            "ok": seen is not None,
            "after_s": None if seen is None else round(seen[0] - begun, 3),
            "period_s": 0.1 if each.expect in FAST else 1.0,
            "reason": "" if seen is None else seen[1].reason,
        }

    async def _heal(self) -> None:
        """Faults end; counters are read once before the next ones come."""
        self._node.heal()
        for place in range(len(self._ids)):
            self._node.set_load(place, 0, 0, 0)
            self._node.reset(place)
        await asyncio.sleep(HEAL_S)

    async def _reset(self) -> dict[str, str]:
        """Cards are reset in sight of everybody; what is held against each afterwards, as what
        needs time or a new card is."""
        self._devices.scan()
        self._node.inject("lost", -1, until_ns=self._node.now_ns + GONE_NS)
        await asyncio.sleep(RESET_S)
        held = self._watch.verdict.holds()
        return {f"card {self._ids.index(id)}": why for id, why in held.items()}


async def rehearse(folder: Path) -> dict[str, Any]:
    """Play everything in this process, whose environment names the simulated node."""
    return await Rehearsal(folder).run()
