# SPDX-License-Identifier: Apache-2.0
"""Groups of neighbours, and NUMA nodes by the kernel."""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from pathlib import Path

import pytest

from stoker.agent.devices.host.topology import (
    Bond,
    Places,
    Topology,
    groups,
    network_cards,
    numa_node,
    switches,
    topology,
)
from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.effects import Start
from tests.agent.devices.host.subsets import ranked, score


def test_groups_are_numbered_from_one_and_loners_are_in_none() -> None:
    near = {(1, 2), (4, 7), (0, 4)}
    found = groups(range(8), lambda a, b: (a, b) in near or (b, a) in near)
    assert found == [1, 2, 2, 0, 1, 0, 0, 1]
    assert groups([], lambda a, b: True) == []
    assert groups(["x"], lambda a, b: True) == [0]


def test_neighbours_of_neighbours_are_neighbours_in_any_order() -> None:
    assert groups([3, 0, 2, 1], lambda a, b: abs(a - b) == 1) == [1, 1, 1, 1]


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("0\n", 0), ("-1\n", None), ("", None)])
def test_numa_node_of_a_pci_function(tmp_path: Path, text: str, node: int | None) -> None:
    folder = tmp_path / "sys/bus/pci/devices/0000:3b:00.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(text)
    assert numa_node("00000000:3B:00.0", tmp_path) == node
    assert numa_node("00000000:3C:00.0", tmp_path) is None


# --- the PCIe tree --------------------------------------------------------------------------------


def function(root: Path, way: str, numa: int) -> None:
    """Make a PCI function at the end of a path of bridges, in the layout of sysfs."""
    real = root / "sys/devices" / way
    real.mkdir(parents=True)
    (real / "numa_node").write_text(f"{numa}\n")
    links = root / "sys/bus/pci/devices"
    links.mkdir(parents=True, exist_ok=True)
    (links / real.name).symlink_to(real)


BRIDGE = "pci0000:00/0000:00:01.0"
SWITCH = f"{BRIDGE}/0000:01:00.0"
FAR = "pci0000:80/0000:80:01.0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two GPUs and a network card behind one switch, one behind a second switch below it, one at
    the host bridge, one at another host bridge of the node, one across the socket."""
    for way, numa in (
        (f"{SWITCH}/0000:02:00.0/0000:03:00.0", 0),
        (f"{SWITCH}/0000:02:01.0/0000:04:00.0", 0),
        (f"{SWITCH}/0000:02:02.0/0000:05:00.0/0000:06:00.0/0000:07:00.0", 0),
        ("pci0000:00/0000:00:02.0/0000:08:00.0", 0),
        ("pci0000:40/0000:40:01.0/0000:41:00.0", 0),
        (f"{FAR}/0000:81:00.0", 1),
        (f"{SWITCH}/0000:02:03.0/0000:09:00.0", 0),
        (f"{FAR}/0000:82:00.0", 1),
    ):
        function(tmp_path, way, numa)
    for kind, name, address in (
        ("infiniband", "mlx5_0", "0000:09:00.0"),
        ("net", "eth0", "0000:82:00.0"),
        ("net", "ib0", "0000:09:00.0"),
    ):
        folder = tmp_path / "sys/class" / kind / name
        folder.mkdir(parents=True)
        (folder / "device").symlink_to(tmp_path / "sys/bus/pci/devices" / address)
    (tmp_path / "sys/class/net/lo").mkdir()
    node = tmp_path / "sys/devices/system/node/node0"
    node.mkdir(parents=True)
    (node / "cpulist").write_text("0-31\n")
    return tmp_path


GPUS = {
    "a": "0000:03:00.0",
    "b": "00000000:04:00.0",
    "c": "0000:07:00.0",
    "d": "0000:08:00.0",
    "e": "0000:41:00.0",
    "f": "0000:81:00.0",
}


def test_the_matrix_names_the_nearest_thing_that_two_share(root: Path) -> None:
    numa = {id: numa_node(at, root) for id, at in GPUS.items()}
    found = topology(Places(tuple(GPUS), GPUS, {("a", "f"): Bond("NV", 4)}, numa), root)
    assert found.names == (*GPUS, "mlx5_0", "eth0")
    assert found.devices == 6
    rows = dict(zip(found.names, found.matrix, strict=True))
    assert rows["a"] == ("X", "PIX", "PXB", "PHB", "NODE", "NV4", "PIX", "SYS")
    assert rows["d"] == ("PHB", "PHB", "PHB", "X", "NODE", "SYS", "PHB", "SYS")
    assert rows["f"] == ("NV4", "SYS", "SYS", "SYS", "SYS", "X", "SYS", "PIX")
    assert found.numa == (0, 0, 0, 0, 0, 1, 0, 1)
    assert found.cpus[0] == "0-31" and found.cpus[5] == ""
    assert all(rows[x][i] == rows[y][j] for i, y in enumerate(rows) for j, x in enumerate(rows))


def test_cards_of_one_switch_are_a_group(root: Path) -> None:
    assert switches(list(GPUS.values()), root) == [1, 1, 1, 0, 0, 0]
    assert switches(["0000:ff:00.0"], root) == [0]


def test_a_machine_without_sysfs_has_a_matrix_as_well(tmp_path: Path) -> None:
    found = topology(Places(("a", "b"), {"a": "0000:01:00.0"}), tmp_path)
    assert found.matrix == (("X", "NODE"), ("NODE", "X"))
    assert network_cards(tmp_path) == ()


def test_where_some_numa_nodes_are_not_known_no_distance_to_them_is_claimed(root: Path) -> None:
    numa = {"a": 0, "f": 1, "g": None, "h": None}
    found = topology(Places(tuple(numa), GPUS, {}, numa), root)
    rows = {name: row[:4] for name, row in zip(found.names, found.matrix, strict=True)}
    assert rows["a"] == ("X", "SYS", "?", "?")
    assert rows["g"] == ("?", "?", "X", "?")


# --- groups suffice -------------------------------------------------------------------------------

NV, FAR_CELL = "NV4", "SYS"


def all_linked() -> tuple[list[list[str]], list[int]]:
    """8xH200 or 8xA100 on NVSwitch, with two NUMA nodes."""
    return [["NV18"] * 8 for _ in range(8)], [0] * 4 + [1] * 4


def bridged_pairs() -> tuple[list[list[str]], list[int]]:
    """Eight PCIe cards in pairs with a bridge, and two switches on each NUMA node."""
    cells = [
        [NV if i // 2 == j // 2 else "NODE" if i // 4 == j // 4 else FAR_CELL for j in range(8)]
        for i in range(8)
    ]
    return cells, [0] * 4 + [1] * 4


def plain_pcie() -> tuple[list[list[str]], list[int]]:
    """4xL40S: two behind one switch on each NUMA node, without links."""
    cells = [["PIX" if i // 2 == j // 2 else FAR_CELL for j in range(4)] for i in range(4)]
    return cells, [0, 0, 1, 1]


def quads() -> tuple[list[list[str]], list[int]]:
    """Two fully linked groups of four on one NUMA node."""
    return [["NV6" if i // 4 == j // 4 else "NODE" for j in range(8)] for i in range(8)], [0] * 8


@pytest.mark.parametrize("shape", [all_linked, bridged_pairs, plain_pcie, quads])
def test_the_cores_choice_is_a_best_ranked_subset_whatever_is_free(
    shape: Callable[[], tuple[list[list[str]], list[int]]],
) -> None:
    """Every set of free devices and every size: what the core places by groups of links, switches
    and NUMA nodes scores as the best subset by the whole matrix does."""
    cells, numa = shape()
    count = len(cells)
    found = Topology(
        tuple(map(str, range(count))),
        tuple(tuple("X" if i == j else c for j, c in enumerate(r)) for i, r in enumerate(cells)),
        tuple(numa),
        ("",) * count,
        count,
    )
    link = groups(range(count), lambda i, j: cells[i][j].startswith("NV"))
    bus = groups(range(count), lambda i, j: cells[i][j] in ("PIX", "PXB"))
    best = {size: ranked(found, size) for size in range(1, count + 1)}
    for size in range(1, count + 1):
        assert len(best[size]) == len(set(best[size])) == comb(count, size)
    for free in range(1, 1 << count):
        for size in range(1, free.bit_count() + 1):
            chosen = core_choice(free, size, link, numa, bus)
            first = next(mask for mask in best[size] if not mask & ~free)
            wanted = score(found.matrix, found.numa, members(first))
            seen = score(found.matrix, found.numa, chosen)
            assert seen == wanted, (bin(free), size, chosen, members(first))


def members(mask: int) -> list[int]:
    return [index for index in range(16) if mask >> index & 1]


def core_choice(
    free: int, size: int, link: list[int], numa: list[int], bus: list[int]
) -> list[int]:
    """The devices that the core gives a job of `size` when only those of `free` are available."""
    count = len(link)
    core = Core(Limits(nodes=2, devices=count, jobs=4, finished=2, tasks=4))
    requests: list[rec.Request] = [rec.NodeUp(1, 1, 1, 64_000, 1 << 40, count)]
    requests += [
        rec.DeviceSet(
            node=1,
            device=i,
            available=bool(free >> i & 1),
            link=link[i],
            numa=numa[i] + 1,
            bus=bus[i],
        )
        for i in range(count)
    ]
    requests.append(rec.Submit(client=1, gpu_milli=1000 * size))
    effects: list[object] = []
    for request in requests:
        effects += core.apply(core.propose([request], 1, 1).commands, 1)
    effects += core.apply(core.propose([], 2, 1).commands, 2)
    (start,) = [each for each in effects if isinstance(each, Start)]
    return [share.index for share in start.shares]
