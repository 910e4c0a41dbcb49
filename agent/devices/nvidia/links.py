# SPDX-License-Identifier: Apache-2.0
"""Peers at the other ends of one GPU's NVLink ports, through the binding.

The card's record has the counters and states of the ports. Numbers are those of nvml.h.
"""

from __future__ import annotations

from typing import Any

from stoker.agent.devices.card import Calls
from stoker.agent.devices.host import topology
from stoker.agent.devices.nvidia.nvml import call, text
from stoker.agent.devices.readings import Absent
from stoker.agent.devices.record import Link

PORTS_MAX = 18
"""NVML_NVLINK_MAX_LINKS."""
NOBODY = ("", "")
GBPS = {1: 40, 2: 50, 3: 50, 4: 50, 5: 100}
"""GB/s of one link, both directions together, by the version of NVLink (NVIDIA's data sheets)."""
PEERS = {0: "gpu", 1: "npu", 2: "switch"}
"""nvmlIntNvLinkDeviceType_t."""


class Peers:
    """Peers of all ports of one GPU; each is read once."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._known: dict[int, tuple[str, str]] = {}
        self._wanted: set[int] = set()
        """Ports that are up and whose peer is not known yet."""

    def of(self, link: Link) -> tuple[str, str]:
        """Address and kind of a port's peer, if they are known; calls no driver."""
        if link.up and link.port not in self._known:
            self._wanted.add(link.port)
        return self._known.get(link.port, NOBODY)

    def meet(self, calls: Calls | None) -> None:
        """Read the missing peers; if none is known, of all ports that are up."""
        if not self._known and not self._wanted:
            self._find(calls)
        while self._wanted:
            port = self._wanted.pop()
            self._known[port] = self._peer(port, calls)

    def linked(self) -> list[tuple[str, str]]:
        """Address and kind of the peer of each port that is up now."""
        self._known = {}
        self.meet(None)
        return list(self._known.values())

    def gbps(self) -> int:
        """Return the GB/s of one of its links, both directions together; 0 if not known."""
        version = call(self._nvml, "nvmlDeviceGetNvLinkVersion", self._handle, 0)
        return 0 if isinstance(version, Absent) else GBPS.get(int(version), 0)

    def _find(self, calls: Calls | None) -> None:
        for port in range(PORTS_MAX):
            name = "nvmlDeviceGetNvLinkState"
            up = call(self._nvml, name, self._handle, port, calls=calls)
            if isinstance(up, Absent):
                return
            if up:
                self._wanted.add(port)

    def _peer(self, port: int, calls: Calls | None) -> tuple[str, str]:
        pci = call(self._nvml, "nvmlDeviceGetNvLinkRemotePciInfo", self._handle, port, calls=calls)
        kind = call(
            self._nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", self._handle, port, calls=calls
        )
        return (
            "" if isinstance(pci, Absent) else topology.pci_address(text(pci.busId)),
            "" if isinstance(kind, Absent) else PEERS.get(kind, ""),
        )
