# SPDX-License-Identifier: Apache-2.0
"""AMD GPUs without ROCm: amdgpu's files in sysfs, its hwmon and the KFD topology.

The kernel describes the files in Documentation/gpu/amdgpu/, hwmon/sysfs-interface and
drivers/gpu/drm/amd/amdkfd.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from stoker.agent.devices.amd.card import AmdCard
from stoker.agent.devices.amd.sysfs_card import SysfsCard
from stoker.agent.devices.host import topology
from stoker.agent.devices.host.device_files import DRM_MAJOR, Node, majors, render_nodes
from stoker.agent.devices.host.topology import Bond, Pair
from stoker.agent.devices.vendor import Scan, neighbours
from stoker.scheduler.nouns import DEVICES_PER_NODE_MAX, DeviceInfo

VENDOR_ID = "0x1002"
DRM = Path("sys/class/drm")
KFD = Path("sys/class/kfd/kfd/topology/nodes")
XGMI_LINK = 11
"""The `type` of an XGMI link in io_links, as in the CRAT."""


def scan(root: Path = Path("/")) -> Scan:
    """Every amdgpu card that /sys/class/drm lists."""
    kfd = _kfd_nodes(root)
    infos: list[DeviceInfo] = []
    cards: list[SysfsCard] = []
    by_node: dict[int, str] = {}
    for folder in list(_cards(root))[:DEVICES_PER_NODE_MAX]:
        render = render_nodes(folder)[:1]
        minor = render[0][1] if render else None
        node = next((n for n, p in kfd.items() if p.get("drm_render_minor") == minor), None)
        gpu_id = _number(root / KFD / str(node) / "gpu_id") if node is not None else None
        address = folder.resolve().name
        card = SysfsCard(folder, address, root, kfd_id=gpu_id)
        info = DeviceInfo(
            id=card.id,
            vendor="amd",
            model=card.model,
            memory_bytes=_number(folder / "mem_info_vram_total"),
            nodes=nodes(minor, root),
            visible={"ROCR_VISIBLE_DEVICES": f"GPU-{card.unique}"} if card.unique else {},
            numa=topology.numa_node(address, root),
            arch=_arch(kfd.get(node, {}) if node is not None else {}),
            driver=_line(root / "sys/module/amdgpu/version"),
        )
        infos.append(info)
        cards.append(card)
        if node is not None:
            by_node[node] = card.id
    return scan_of(infos, cards, _bonds(by_node, root), (), root)


def nodes(minor: int | None, root: Path = Path("/")) -> tuple[Node, ...]:
    """/dev/kfd, which every process of ROCm opens, and the card's render node."""
    kfd = [(major, 0) for major in majors("kfd", root)]
    return (*kfd, *(() if minor is None else ((DRM_MAJOR, minor),)))


def scan_of(
    infos: Sequence[DeviceInfo],
    cards: Sequence[AmdCard | SysfsCard],
    bonds: Mapping[Pair, Bond],
    missing: tuple[str, ...],
    root: Path,
) -> Scan:
    """The scan of these cards, with their groups by XGMI links and PCIe switches."""
    addresses = {card.id: card.address for card in cards}
    buses = topology.switches([card.address for card in cards], root)
    return Scan(neighbours(infos, bonds, buses), missing, tuple(cards), addresses, bonds)


def _bonds(by_node: Mapping[int, str], root: Path) -> dict[Pair, Bond]:
    """Pairs of cards with an XGMI link, by KFD node."""
    return {
        topology.pair(id, by_node[peer]): Bond("XGMI", 0, gbps)
        for node, id in by_node.items()
        for peer, gbps in _xgmi_peers(root, node)
        if peer in by_node and peer != node
    }


def _cards(root: Path) -> Iterator[Path]:
    try:
        names = sorted((root / DRM).iterdir(), key=lambda path: (len(path.name), path.name))
    except OSError:
        return
    for path in names:
        if not path.name.removeprefix("card").isdecimal():
            continue
        device = path / "device"
        try:
            if (device / "vendor").read_text().strip() == VENDOR_ID:
                yield device
        except OSError:
            continue


def _arch(properties: Mapping[str, int]) -> str:
    """The target of the compiler by KFD's number: 90402 is gfx942."""
    version = properties.get("gfx_target_version", 0)
    major, minor, step = version // 10_000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}" if major else ""


def _line(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _kfd_nodes(root: Path) -> dict[int, dict[str, int]]:
    """KFD node -> its properties, for nodes with a GPU, which have a render minor."""
    found: dict[int, dict[str, int]] = {}
    try:
        folders = list((root / KFD).iterdir())
    except OSError:
        return {}
    for folder in folders:
        properties = _properties(folder / "properties")
        if folder.name.isdecimal() and properties.get("drm_render_minor", 0) > 0:
            found[int(folder.name)] = properties
    return found


def _xgmi_peers(root: Path, node: int) -> Iterator[tuple[int, int]]:
    """Yield the node at the other end of each XGMI link, and its GB/s in both directions together;
    KFD tells MB/s of one direction, and 0 where it does not know them."""
    try:
        links = list((root / KFD / str(node) / "io_links").iterdir())
    except OSError:
        return
    for link in links:
        properties = _properties(link / "properties")
        if properties.get("type") == XGMI_LINK and "node_to" in properties:
            yield properties["node_to"], 2 * properties.get("max_bandwidth", 0) // 1000


def _properties(path: Path) -> dict[str, int]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    words = (line.split() for line in lines)
    return {word[0]: int(word[1]) for word in words if len(word) == 2 and word[1].isdecimal()}


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
