# SPDX-License-Identifier: Apache-2.0
"""Ports for servers of tests, which nothing else on this machine is given meanwhile.

A server listens on its port long after the port was chosen, and again after a restart. So the
ports lie below the kernel's ephemeral range and below those of nodes, and each process that runs
tests takes its own in turn.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket

FIRST, EACH, PROCESSES = 12_000, 800, 10
"""The range, by processes; nodes have ports from 20,000 (agent/supervise/broker_port.py)."""


def _own_range() -> list[int]:
    """Return the ports of this process in the order in which they are tried."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    first = FIRST + EACH * (int(worker) % PROCESSES)
    begun = os.getpid() % EACH  # another run of the tests begins elsewhere
    return [first + (begun + step) % EACH for step in range(EACH)]


_turn = itertools.cycle(_own_range())


def free_port() -> int:
    """Return a port on which no process listens now."""
    for port in itertools.islice(_turn, EACH):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"all {EACH} ports of this process are taken")


def free_ports(count: int) -> list[int]:
    """Return so many different ports on which no process listens now."""
    return [free_port() for _ in range(count)]
