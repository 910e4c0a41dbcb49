# SPDX-License-Identifier: Apache-2.0
"""The ports at which the ranks of gangs meet: one for each gang, on the node of its rank 0.

Pure. Owns the rule that no two gangs have one port of a node at a time. Ports are above those that
Linux gives to outgoing connections, and a later attempt of a job begins to look at another one.
Each cluster begins elsewhere, so that nodes of two clusters on one host seldom have one port.
"""

from __future__ import annotations

import zlib

FIRST_PORT = 61_000
PORTS = 4_096
"""Ports of one node: as many as its spawner holds attempts, so that a gang always finds one."""


class GangPorts:
    """The ports in use, by node, in one cluster."""

    def __init__(self, cluster: str = "") -> None:
        self._first = zlib.crc32(cluster.encode())
        self._used: dict[str, dict[int, int]] = {}

    def take(self, node: str, job: int, attempt: int) -> int:
        """Return a port for this attempt of a gang; 0 if the node has none left."""
        used = self._used.setdefault(node, {})
        first = self._first + job + attempt
        for step in range(PORTS):
            port = FIRST_PORT + (first + step) % PORTS
            if port not in used:
                used[port] = job
                return port
        return 0

    def hold(self, node: str, port: int, job: int) -> None:
        """Note a port that was taken before."""
        self._used.setdefault(node, {})[port] = job

    def give(self, node: str, port: int, job: int) -> None:
        """Give back the port of a gang, if it has it."""
        used = self._used.get(node, {})
        if used.get(port) == job:
            del used[port]
            if not used:
                del self._used[node]
