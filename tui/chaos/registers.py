# SPDX-License-Identifier: Apache-2.0
"""Clients that write and read one value in the log all the time, and the history of what they saw.

A register is a label of a node. Each client uses one host and sends each request once, so that what
has no answer is known as such; each value is written once. `linearizability.py` judges the history.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import random
import time
from collections.abc import Sequence
from pathlib import Path

from stoker.mesh.client.client import Client
from stoker.mesh.client.read_choice import AT_THE_LEADER, ReadChoice
from stoker.mesh.wire import schema, subjects
from stoker.native.errors import StokerError
from stoker.tui.chaos.linearizability import Operation
from stoker.tui.demo.network_hosts import Host

PAUSE_S = (0.05, 0.3)
LABEL = "register"
ANYWHERE = ReadChoice(subjects.ANY)
"""The choice of any scheduler, which answers with all that was acknowledged before, too."""


class Registers:
    """The history of the registers of all hosts; times are those of CLOCK_MONOTONIC in seconds."""

    def __init__(self, hosts: Sequence[Host], seed: int) -> None:
        self._hosts, self._seed = tuple(hosts), seed
        self._values = itertools.count(1)
        self.history: list[Operation] = []
        self.unanswered = 0

    async def use(self, host: Host) -> None:
        """Write and read by one host until cancelled."""
        chance = random.Random(f"{self._seed} {host.name}")
        while True:
            with contextlib.suppress(StokerError):
                async with (
                    Client.open(str(host.state), patience_s=0.0, reads=AT_THE_LEADER) as leader,
                    Client.open(str(host.state), patience_s=0.0, reads=ANYWHERE) as anywhere,
                ):
                    await self._go_on(chance, leader, anywhere)
            await asyncio.sleep(PAUSE_S[1])

    async def _go_on(self, chance: random.Random, leader: Client, anywhere: Client) -> None:
        while True:
            name = chance.choice(self._hosts).name
            kind = chance.choice((self._write, self._read_leader, self._read_any))
            await kind(name, leader, anywhere)
            await asyncio.sleep(chance.uniform(*PAUSE_S))

    async def _write(self, name: str, leader: Client, _: Client) -> None:
        value, start = str(next(self._values)), time.monotonic()
        end = math.inf
        label = schema.NodeLabelRequest(node=name, labels=(f"{LABEL}={value}",))
        try:
            await leader.settle("node", "label", label)
            end = time.monotonic()
        except StokerError:
            self.unanswered += 1
        finally:  # one that is cancelled may have happened as well
            self.history.append(Operation(name, "write", value, start, end))

    async def _read_leader(self, name: str, leader: Client, _: Client) -> None:
        await self._read(name, leader)

    async def _read_any(self, name: str, _: Client, anywhere: Client) -> None:
        await self._read(name, anywhere)

    async def _read(self, name: str, client: Client) -> None:
        start = time.monotonic()
        try:
            nodes = (await client.nodes()).nodes
        except StokerError:
            self.unanswered += 1
            return
        end = time.monotonic()
        for node in nodes:
            if node.node == name:
                labels = dict(label.split("=", 1) for label in node.labels)
                seen = labels.get(LABEL, "")
                self.history.append(Operation(name, "read", seen, start, end))

    def write(self, path: Path) -> None:
        """Write the history, one JSON object a line, an end of null where there was no answer."""
        rows = [
            {**each._asdict(), "end": None if each.end == math.inf else each.end}
            for each in self.history
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
