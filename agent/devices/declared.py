# SPDX-License-Identifier: Apache-2.0
"""Devices that an operator declares in config.toml: character devices that no vendor class finds.

    [[device]]
    id = "fpga-0"
    model = "Alveo U50"
    nodes = ["/dev/xclmgmt0"]
    vendor = "xilinx"                         # optional; the vendor whose variables hide it
    visible = { XRT_DEVICE = "0" }            # optional; variables of a job that has it
    memory_bytes = 8589934592                 # optional
    numa = 0                                  # optional; its NUMA node
    link = 1                                  # optional; equal numbers share a fast link
    link_gbps = 300                           # optional; its GB/s, both directions together
    bus = 1                                   # optional; equal numbers share a PCIe switch
    arch = "versal"                           # optional; what jobs may ask for with --arch
    driver = "2.16.204"                       # optional; --driver
    profile = "half"                          # optional; --partition-profile

A declared node must exist and be a character device; a device that cannot be opened is never
granted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from stoker.agent.devices.card import Silent
from stoker.agent.devices.host import holders
from stoker.agent.devices.host.device_files import Node
from stoker.agent.devices.host.processes import IsOurs
from stoker.agent.devices.vendor import Scan, Vendor, register
from stoker.native.errors import BadRequest
from stoker.scheduler.nouns import DeviceInfo

NODES_MAX = 16

Place = Annotated[int, msgspec.Meta(ge=0, lt=65_535)]
Word = Annotated[str, msgspec.Meta(max_length=128)]

NO_SENSOR = "a declared device has no sensor"


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[device]]` table."""

    id: str
    """Name of the device, which jobs may ask for."""
    model: str = ""
    """Model, as lists show it."""
    nodes: tuple[str, ...] = ()
    """Its files in /dev, which the device gate admits for a job that has it."""
    vendor: str = "declared"
    """Vendor; nvidia, amd and intel also un-hide that vendor's runtime."""
    visible: dict[str, str] = {}
    """Variables of a job that has it."""
    memory_bytes: int | None = None
    """Bytes of its memory."""
    numa: Place | None = None
    """Its NUMA node."""
    link: Place = 0
    """Devices with equal numbers share a fast link; 0 is none."""
    link_gbps: Place = 0
    """GB/s of that link, both directions together."""
    bus: Place = 0
    """Devices with equal numbers share a PCIe switch; 0 is none."""
    arch: Word = ""
    """Architecture, for --arch."""
    driver: Word = ""
    """Driver, for --driver."""
    profile: Word = ""
    """Profile of a partition, for --partition-profile."""


@register
class Declared(Vendor):
    """The devices of the `[[device]]` tables. A device whose node another process has open gets no
    jobs."""

    name = "declared"

    def __init__(self, config: Mapping[str, Any]) -> None:
        try:
            self._declared = msgspec.convert(config.get("device", []), list[Declaration])
        except msgspec.ValidationError as error:
            raise BadRequest(f"config.toml, [[device]]: {error}") from error
        self._nodes: dict[Node, str] = {}

    def scan(self) -> Scan:
        self._nodes = {}
        return Scan(
            tuple(self._device(entry) for entry in self._declared),
            cards=tuple(Silent(entry.id, NO_SENSOR) for entry in self._declared),
        )

    def holders(self, is_ours: IsOurs) -> Mapping[str, str]:
        if not self._nodes:
            return {}
        folders = {f"{Path(path).parent}/" for entry in self._declared for path in entry.nodes}
        found = holders.scan(frozenset(self._nodes), is_ours, ("/dev/", *folders))
        return {self._nodes[node]: why for node, why in found.holders.items()}

    def _device(self, entry: Declaration) -> DeviceInfo:
        nodes, unavailable = [], ""
        for path in entry.nodes[:NODES_MAX]:
            try:
                node = _character_device(path)
            except OSError as error:
                unavailable = f"{path}: {error.strerror}"
                continue
            nodes.append(node)
            self._nodes[node] = entry.id
        if len(entry.nodes) > NODES_MAX:
            unavailable = f"{len(entry.nodes)} nodes are declared, at most {NODES_MAX} are admitted"
        return DeviceInfo(
            id=entry.id,
            vendor=entry.vendor,
            model=entry.model or entry.id,
            kind="declared",
            memory_bytes=entry.memory_bytes,
            nodes=tuple(nodes),
            visible=entry.visible,
            unavailable=unavailable,
            numa=entry.numa,
            link=entry.link,
            link_gbps=entry.link_gbps,
            bus=entry.bus,
            arch=entry.arch,
            driver=entry.driver,
            profile=entry.profile,
        )


def _character_device(path: str) -> Node:
    found = Path(path).stat()
    if not stat.S_ISCHR(found.st_mode):
        raise OSError(0, "it is not a character device")
    return os.major(found.st_rdev), os.minor(found.st_rdev)
