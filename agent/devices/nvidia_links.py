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
BY_KIB, BY_BYTES = (138, 139), (202, 204)
"""Sent and received; NVLink 5 counts in the latter, older ones in the former."""
STATE = 165
UP = (1, 2)
"""Active, asleep."""
ERRORS = (161, 162, 163)
"""Replays, recoveries, checksum errors."""
PEERS = {0: "gpu", 1: "npu", 2: "switch"}


class Links:
    """All ports of one GPU."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._ports: dict[int, bool] = {}
        self._fields: tuple[int, ...] = (*BY_KIB, *BY_BYTES, STATE, *ERRORS)
        self._peers: dict[int, tuple[str, str]] = {}
        self._batch: Batch | None = None

    def read(self, calls: Calls) -> Field:
        """A list of ports, each {port, up, peer, peer_kind, tx_bytes, rx_bytes, errors}."""
        if self._batch is None:
            why = self._find(calls)
            if self._batch is None:
                return why
        values = self._batch.numbers(calls)
        if isinstance(values, Absent):
            if values.trouble:
                return values
            values = [None] * (len(self._ports) * len(self._fields))
        fields, size = self._fields, len(self._fields)
        self._choose(values)
        ports = [
            self._port(
                port, dict(zip(fields, values[i * size : (i + 1) * size], strict=True)), calls
            )
            for i, port in enumerate(self._ports)
        ]
        return Reading(ports, "", time.time_ns())

    def _find(self, calls: Calls) -> Absent:
        """Which ports there are; the reason if there is none."""
        why = Absent("no NVLink ports")
        for port in range(PORTS_MAX):
            state = self._state(port, calls)
            if isinstance(state, Absent):
                why = state
                break
            self._ports[port] = state
        if self._ports:
            self._batch = Batch(self._nvml, self._handle, self._wanted())
        return why

    def _state(self, port: int, calls: Calls) -> bool | Absent:
        state = ask(self._nvml, "nvmlDeviceGetNvLinkState", self._handle, port, calls=calls)
        return state if isinstance(state, Absent) else bool(state)

    def _wanted(self) -> list[Wanted]:
        return [(field, port) for port in self._ports for field in self._fields]

    def _choose(self, values: list[float | None]) -> None:
        """Ask next time for those counters alone that this generation has."""
        if len(self._fields) <= 2 + 1 + len(ERRORS):
            return
        first = dict(zip(self._fields, values, strict=False))
        moved = BY_BYTES if first.get(BY_BYTES[0]) is not None else BY_KIB
        self._fields = (*moved, STATE, *ERRORS)
        self._batch = Batch(self._nvml, self._handle, self._wanted())

    def _port(self, port: int, found: dict[int, float | None], calls: Calls) -> dict[str, Any]:
        state = found.get(STATE)
        up = self._state(port, calls) if state is None else state in UP
        if isinstance(up, Absent):
            up = self._ports[port]
        self._ports[port] = up
        if up and port not in self._peers:
            self._peers[port] = self._peer(port, calls)
        peer, kind = self._peers.get(port, ("", ""))
        known = [count for field in ERRORS if (count := found[field]) is not None]
        return {
            "port": port,
            "up": up,
            "peer": peer,
            "peer_kind": kind,
            "tx_bytes": _bytes(found, 0),
            "rx_bytes": _bytes(found, 1),
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


def _bytes(found: dict[int, float | None], side: int) -> float | None:
    exact = found.get(BY_BYTES[side])
    if exact is not None:
        return exact
    kib = found.get(BY_KIB[side])
    return None if kib is None else kib * 1024
