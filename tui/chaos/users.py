# SPDX-License-Identifier: Apache-2.0
"""The users of a cluster under faults: they submit jobs all the time, by whichever host answers.

Owns the record of what was accepted. A submission that was not answered is repeated with its
idempotency key until it is, as a careful user does, so that each key has one job at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from stoker.mesh.client.client import Client, new_key
from stoker.mesh.wire import schema
from stoker.native.errors import StokerError
from stoker.tui.chaos import marks
from stoker.tui.demo.network_hosts import Host

PAUSE_S = 0.5
"""The pause of one user between two submissions."""
PATIENCE_S = 3.0
"""The wait for one host before another one is tried."""
END_S = 120.0
"""The longest wait for a job that was accepted, after the last fault."""


class Accepted(NamedTuple):
    """A job that a scheduler has accepted, and how it may run."""

    job: int
    once: bool
    """It may run one time at most."""
    exclusive: bool
    """It has its host's device for itself."""


class ChaosUsers:
    """The users, and what they have been told."""

    def __init__(self, hosts: Sequence[Host], marks_file: Path) -> None:
        self._hosts, self._marks = tuple(hosts), marks_file
        self.accepted: list[Accepted] = []
        self.unanswered = 0
        """The requests that had no answer and were repeated."""

    async def submit_on(self, number: int) -> None:
        """Submit one job after the other, until cancelled; `number` tells users apart."""
        async with contextlib.AsyncExitStack() as stack:
            clients: dict[str, Client] = {}
            for turn in range(number, 1 << 30):
                await self._one(stack, clients, turn)
                await asyncio.sleep(PAUSE_S)

    async def _one(
        self, stack: contextlib.AsyncExitStack, clients: dict[str, Client], turn: int
    ) -> None:
        once, exclusive = turn % 2 == 0, turn % 3 == 0
        request = self._request(once, exclusive)
        for host in self._hosts_for(turn):
            try:
                if host.name not in clients:
                    opened = Client.open(str(host.state), patience_s=PATIENCE_S)
                    clients[host.name] = await stack.enter_async_context(opened)
                view = await clients[host.name].submit(request)
            except StokerError:
                self.unanswered += 1
                since_ns = request.idempotency_since_ns or time.time_ns()
                request = msgspec.structs.replace(request, idempotency_since_ns=since_ns)
                await asyncio.sleep(PAUSE_S)
                continue
            self.accepted.append(Accepted(view.job, once, exclusive))
            return

    def _hosts_for(self, turn: int) -> Iterator[Host]:
        """Return the hosts in the order in which this submission tries them, without an end."""
        first = turn % len(self._hosts)
        return itertools.cycle([*self._hosts[first:], *self._hosts[:first]])

    def _request(self, once: bool, exclusive: bool) -> schema.JobRequest:
        return schema.JobRequest(
            argv=marks.argv(3, 0.05, self._marks),
            cwd="/",
            name="chaos",
            gpu_milli=1000 if exclusive else 0,
            device_kind="cpu",
            trace="off",
            restart="never" if once else "on-node-loss",
            idempotency_key=new_key(),
        )

    async def ended(self, client: Client) -> AsyncIterator[str]:
        """Wait for every job that was accepted; yield what is lost, doubled or wrong."""
        numbers = [each.job for each in self.accepted]
        if len(set(numbers)) != len(numbers):
            yield f"{len(numbers) - len(set(numbers))} jobs answer to two submissions"
        deadline = time.monotonic() + END_S
        for each in self.accepted:
            try:
                async with asyncio.timeout(max(deadline - time.monotonic(), 1.0)):
                    view = await client.wait(each.job)
            except (StokerError, TimeoutError) as error:
                yield f"job {each.job} was accepted and has no end: {error or 'it waits'}"
                continue
            if view.state != "succeeded" and not (each.once and view.state == "lost"):
                yield f"job {each.job} {view.state}: {view.reason}"
