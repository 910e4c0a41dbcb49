# SPDX-License-Identifier: Apache-2.0
"""One node of a cluster of real schedulers: a real spawner, watchdog and agent, and no broker."""

from __future__ import annotations

import os
from pathlib import Path

from fakes.one_node import OneNode

from stoker.agent.state import node_labels
from stoker.agent.state import state_folder as states
from stoker.agent.state.lease import Lease
from stoker.agent.state.state_folder import ClusterFile
from stoker.mesh.identity import identity, sealed_json
from stoker.mesh.log.genesis import Genesis
from stoker.native import durable_file
from tests.fakes import pinned


class JoinedNode(OneNode):
    """The state folder and the processes of a node that `record` names, as a context manager.

    `seed` is the key of its agent, which the cluster's brokers know.
    """

    def __init__(self, folder: Path, record: ClusterFile, genesis: Genesis, seed: Path) -> None:
        folder.mkdir(mode=0o700)
        super().__init__(folder)
        self.name = record.node
        self._record = record
        self._genesis = genesis
        self._seed = seed
        self.labels: tuple[str, ...] = ()
        """The labels of `up --label`."""
        self.config = ""
        """The text of its config.toml."""

    async def __aenter__(self) -> JoinedNode:
        self._write_state()
        self.start_spawner()
        self.start_watchdog()
        self.start_agent()
        return self

    def _write_state(self) -> None:
        where = self.state
        states.prepare(where)
        for name in ("scheduler", "admin"):
            identity.create(where.key(name))
        os.link(self._seed, where.key("agent"))
        pinned.pair(where.keys)
        states.write_cluster(where, self._record)
        durable_file.replace(where.genesis, sealed_json.encode(self._genesis))
        if self.config:
            where.root.joinpath("config.toml").write_text(self.config)
        node_labels.keep(self.labels, where)
        states.seal_format(where)
        states.prepare_run(where)

    @property
    def freezes(self) -> int:
        """The number of times that the watchdog of this node has frozen its jobs."""
        with Lease.open(self.state.run / "lease") as lease:
            return lease.freezes

    @property
    def lease_ns(self) -> int:
        """The end of the node's lease (CLOCK_BOOTTIME); 0 if it never had one."""
        with Lease.open(self.state.run / "lease") as lease:
            return lease.expiry_boottime_ns
