# SPDX-License-Identifier: Apache-2.0
"""NVLink ports of one GPU: up or down, who is at the other end, bytes and errors.

Relied on by `nvidia_card.py`. Counters of all ports come in one batch. Numbers are nvml.h's.
"""

from __future__ import annotations

import time
from typing import Any

from stoker.agent.devices import topology
from stoker.agent.devices.card import Calls
from stoker.agent.devices.nvml import Batch, Wanted, ask, text
from stoker.agent.devices.readings import Absent, Field, Reading

PORTS_MAX = 18
"""NVML_NVLINK_MAX_LINKS."""
LINK_COUNT = 91
TX_KIB, RX_KIB = 138, 139
TX_BYTES, RX_BYTES = 202, 204
"""NVLink 5; older ones count in the two above."""
ERRORS = (161, 162, 163)
"""Replays, recoveries, checksum errors."""
PEERS = {0: "gpu", 1: "npu", 2: "switch"}


class Links:
    """All ports of one GPU."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._ports: list[int] | None = None
        self._why: Absent | None = None
        self._peers: dict[int, tuple[str, str]] = {}
        self._batch: Batch | None = None

    def read(self, calls: Calls) -> Field:
        """A list of ports, each {port, up, peer, peer_kind, tx_bytes, rx_bytes, errors}."""
        states: dict[int, bool] = {}
        for port in range(PORTS_MAX) if self._ports is None else self._ports:
            state = ask(self._nvml, "nvmlDeviceGetNvLinkState", self._handle, port, calls=calls)
            if isinstance(state, Absent):
                if state.trouble:
                    return state
                if not states:
                    self._why = state
                break
            states[port] = bool(state)
        if not states:
            return self._why or Absent("no NVLink ports")
        if self._batch is None or self._ports != list(states):
            self._ports = list(states)
            self._batch = Batch(self._nvml, self._handle, _wanted(self._ports))
        counters = self._batch.read(calls)
        ports = [self._port(port, up, counters, calls) for port, up in states.items()]
        return Reading(ports, "", time.time_ns())

    def _port(
        self, port: int, up: bool, counters: dict[Wanted, Any], calls: Calls
    ) -> dict[str, Any]:
        if up and port not in self._peers:
            self._peers[port] = self._peer(port, calls)
        peer, kind = self._peers.get(port, ("", ""))
        errors = [_value(counters, field, port) for field in ERRORS]
        known = [count for count in errors if count is not None]
        return {
            "port": port,
            "up": up,
            "peer": peer,
            "peer_kind": kind,
            "tx_bytes": _bytes(counters, TX_BYTES, TX_KIB, port),
            "rx_bytes": _bytes(counters, RX_BYTES, RX_KIB, port),
            "errors": sum(known) if known else None,
        }

    def _peer(self, port: int, calls: Calls) -> tuple[str, str]:
        pci = ask(self._nvml, "nvmlDeviceGetNvLinkRemotePciInfo", self._handle, port, calls=calls)
        kind = ask(
            self._nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", self._handle, port, calls=calls
        )
        return (
            "" if isinstance(pci, Absent) else topology.pci_address(text(pci.busId)),
            "" if isinstance(kind, Absent) else PEERS.get(kind, ""),
        )


def _wanted(ports: list[int]) -> list[Wanted]:
    fields = (TX_KIB, RX_KIB, TX_BYTES, RX_BYTES, *ERRORS)
    return [(field, port) for port in ports for field in fields]


def _value(counters: dict[Wanted, Any], field: int, port: int) -> float | None:
    found = counters.get((field, port))
    return None if found is None or isinstance(found, Absent) else found[0]


def _bytes(counters: dict[Wanted, Any], exact: int, kib: int, port: int) -> float | None:
    found = _value(counters, exact, port)
    if found is not None:
        return found
    found = _value(counters, kib, port)
    return None if found is None else found * 1024
