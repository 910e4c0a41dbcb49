# SPDX-License-Identifier: Apache-2.0
"""NVLink ports of one GPU: up or down, who is at the other end, bytes and errors.

Relied on by `nvidia_card.py`. Counters of all ports come in one batch. Numbers are nvml.h's.
"""

from __future__ import annotations

from typing import Any

from stoker.agent.devices import topology
from stoker.agent.devices.card import Calls
from stoker.agent.devices.nvml import Batch, ask, text
from stoker.agent.devices.readings import Absent, Field, Reading

PORTS_MAX = 18
"""NVML_NVLINK_MAX_LINKS."""
BY_KIB, BY_BYTES = (138, 139), (202, 204)
"""Sent and received; NVLink 5 counts in the latter, older ones in the former."""
STATE = 165
UP = frozenset({1, 2})
"""Active, asleep."""
ERRORS = (161, 162, 163)
"""Replays, recoveries, checksum errors."""
PER_PORT = 3 + len(ERRORS)
NOBODY = ("", "")
PEERS = {0: "gpu", 1: "npu", 2: "switch"}


class Links:
    """All ports of one GPU."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._ports: dict[int, bool] = {}
        self._scale = 1
        self._peers: dict[int, tuple[str, str]] = {}
        self._batch: Batch | None = None
        self._met = True
        """Whether the peer of each port that is up is known."""

    @property
    def batch(self) -> Batch | None:
        """What is asked for of all ports, once they were found."""
        return self._batch

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(self._ports)

    def meet(self, calls: Calls) -> None:
        """Ask for peers of ports that came up since they were found."""
        if not self._met:
            self._met = True
            for port in self._ports:
                if port not in self._peers:
                    self._peers[port] = self._peer(port, calls)

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
            values = [None] * (len(self._ports) * PER_PORT)
        ports = self._all_up(values) or [
            self._port(port, values[place * PER_PORT : (place + 1) * PER_PORT], calls)
            for place, port in enumerate(self._ports)
        ]
        return Reading(ports, "", calls.now())

    def _all_up(self, values: list[Any]) -> list[dict[str, Any]]:
        """What `_port` makes of each where all are up, known and counted: of eighteen ports in a
        third of the time. Else nothing."""
        columns = [values[place::PER_PORT] for place in range(PER_PORT)]
        if None in values or len(self._peers) < len(self._ports) or not UP.issuperset(columns[2]):
            return []
        scale = self._scale
        sent, received, _, *errors = columns
        rows = zip(self._ports, sent, received, *errors, strict=True)
        return [
            {
                "port": port,
                "up": True,
                "peer": self._peers[port][0],
                "peer_kind": self._peers[port][1],
                "tx_bytes": tx * scale,
                "rx_bytes": rx * scale,
                "errors": replays + recoveries + checksums,
            }
            for port, tx, rx, replays, recoveries, checksums in rows
        ]

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
            self._batch = self._choose(calls)
        return why

    def _state(self, port: int, calls: Calls) -> bool | Absent:
        state = ask(self._nvml, "nvmlDeviceGetNvLinkState", self._handle, port, calls=calls)
        return state if isinstance(state, Absent) else bool(state)

    def _choose(self, calls: Calls) -> Batch:
        """Sent and received bytes as this generation counts them, state and errors of each port."""
        port = next(iter(self._ports))
        newer = Batch(self._nvml, self._handle, [(BY_BYTES[0], port)]).numbers(calls)
        self._scale = 1 if isinstance(newer, list) and newer[0] is not None else 1024
        moved = BY_BYTES if self._scale == 1 else BY_KIB
        fields = (*moved, STATE, *ERRORS)
        assert len(fields) == PER_PORT
        wanted = [(field, port) for port in self._ports for field in fields]
        return Batch(self._nvml, self._handle, wanted)

    def _port(self, port: int, values: list[float | None], calls: Calls) -> dict[str, Any]:
        sent, received, state, *errors = values
        up = self._state(port, calls) if state is None else state in UP
        if isinstance(up, Absent):
            up = self._ports[port]
        if up and port not in self._peers and calls.replay is None:
            self._peers[port] = self._peer(port, calls)
        self._met = self._met and (not up or port in self._peers)
        peer, kind = self._peers.get(port, NOBODY)
        counted = [count for count in errors if count is not None]
        return {
            "port": port,
            "up": up,
            "peer": peer,
            "peer_kind": kind,
            "tx_bytes": None if sent is None else sent * self._scale,
            "rx_bytes": None if received is None else received * self._scale,
            "errors": sum(counted) if counted else None,
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
