# SPDX-License-Identifier: Apache-2.0
"""Servers with a broker and a scheduler each, and nodes that run real jobs, all on loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from fakes.joined_node import JoinedNode

from stoker.agent.state.state_folder import ClusterFile
from stoker.mesh.log import genesis
from stoker.mesh.replica import snapshots
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.fence import FENCE_TAINT
from stoker.mesh.wire import schema
from stoker.scheduler.nouns import ENDED
from tests.mesh.founding import replay
from tests.mesh.nats_server import Server, configured, keys_in
from tests.mesh.several_brokers import joined
from tests.mesh.several_schedulers import CLUSTER, SeveralSchedulers

SERVERS = 3


@contextlib.asynccontextmanager
async def running(
    folder: Path,
    names: Sequence[str],
    first: Server,
    environments: dict[str, dict[str, str]] | None = None,
    labels: dict[str, tuple[str, ...]] | None = None,
    *,
    config: str = "",
) -> AsyncIterator[Servers]:
    """Three servers, of which `first` is one that has not been started, and nodes of these names;
    all are ready. `environments`: variables of the processes of some nodes; `config`: the text of
    the config.toml of all."""
    made = Servers(folder, names, *joined(first, SERVERS))
    made.environments, made.labels = environments or {}, labels or {}
    made.config = config
    try:
        yield await made.start()
    finally:
        await made.stop()


@contextlib.asynccontextmanager
async def founded(
    folder: Path,
    names: Sequence[str],
    environments: dict[str, dict[str, str]] | None = None,
    labels: dict[str, tuple[str, ...]] | None = None,
    *,
    config: str = "",
) -> AsyncIterator[Servers]:
    """Run what `running` makes, with a first broker of its own: for a fixture of any scope."""
    with configured(folder, keys_in(folder)) as first:
        first.grant("admin")
        try:
            async with running(folder, names, first, environments, labels, config=config) as made:
                yield made
        finally:
            await first.close_connections()


class Servers(SeveralSchedulers):
    """Servers and the nodes of these names: the first beside the leader, the next beside others."""

    def __init__(self, folder: Path, names: Sequence[str], *servers: Server) -> None:
        super().__init__(*servers)
        self._names = names
        self._folder = folder
        self._running = contextlib.AsyncExitStack()
        self.nodes: list[JoinedNode] = []
        self.environments: dict[str, dict[str, str]] = {}
        """Variables of the processes of some nodes, such as those of simulated cards."""
        self.labels: dict[str, tuple[str, ...]] = {}
        """The labels that some nodes give themselves."""
        self.config = ""
        """The text of the config.toml of each node."""

    async def start(self) -> Servers:
        await self.start_schedulers()
        leader = self.leader().server
        for name, own in zip(self._names, self.servers_from(leader), strict=False):
            others = [each.url for each in self.servers_from(own)[1:]]
            keys = tuple(each.key.public for each in self.schedulers)
            record = ClusterFile(CLUSTER, name, keys[0], own.settings.port, keys, tuple(others))
            seed = self.server.folder / f"{name}.nk"
            node = JoinedNode(self._folder / name, record, self.genesis, seed)
            node.environment = self.environments.get(name, {})
            node.labels = self.labels.get(name, ())
            node.config = self.config
            self.nodes.append(await self._running.enter_async_context(node))
        await self.until_nodes_are_ready()
        return self

    def servers_from(self, first: Server) -> list[Server]:
        """Return all servers in their order, beginning with this one."""
        at = self.servers.index(first)
        return [*self.servers[at:], *self.servers[:at]]

    async def until_nodes_are_ready(self) -> None:
        while True:
            listed = await self.persist("alice", "node", "list")
            if [node.node for node in listed.nodes if node.state == "ready"] == list(self._names):
                return
            await asyncio.sleep(0.05)

    async def until_state(self, job: int, *states: str) -> schema.JobView:
        """Wait until a job has one of these states."""
        until = "running" if "running" in states else "ended"
        while True:
            view: schema.JobView = await self.persist(
                "alice", "job", "get", job=job, until=until, wait_s=2.0
            )
            if view.state in states:
                return view
            assert view.state not in ENDED, view

    async def submit(self, *argv: str, **fields: Any) -> int:
        """Submit a job that may run once only; return its number."""
        fields |= {"tolerate": (FENCE_TAINT,)}
        return int((await self.persist("alice", "job", "submit", argv=argv, **fields)).job)

    def freezes(self) -> list[int]:
        """Return the freezes of each node; the first one is at its start, before it has a lease."""
        return [node.freezes for node in self.nodes]

    def digests(self) -> set[bytes]:
        """The digests of the states that follow from what each scheduler holds up to one index."""
        chains = [each.held() for each in self.schedulers]
        last = min(max(each) for each in chains)
        return {self._digest(each, last) for each in chains}

    def _digest(self, held: dict[int, bytes], last: int) -> bytes:
        state = ReplicaState(CLUSTER, genesis.digest(self.genesis))
        for index in range(1, last + 1):
            replay(state, index, held[index])
        return snapshots.agreement(state.snapshot())

    async def until_equal(self) -> None:
        """Wait until all schedulers hold the same entries, and compare their states."""
        await self.until(lambda: len({max(each.held()) for each in self.schedulers}) == 1)
        assert len(self.digests()) == 1

    async def stop(self) -> None:
        await self._running.aclose()
        await super().stop()
        for server in self.servers:
            await server.close_connections()
            server.stop()

    def logs(self) -> str:
        agents = [f"{node.name}: {node.log()[-3000:]}" for node in self.nodes]
        return "\n\n".join([super().logs(), *agents])
