# SPDX-License-Identifier: Apache-2.0
"""Placements that choose between nodes: two nodes with eight simulated cards (SIM) each, of which
one thing at a time changes, and the next job goes to the other one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from fakes.servers import Servers, founded

from stoker.mesh.wire import schema
from stoker.native import _sim
from stoker.probes.simdriver import libraries, profiles
from tests.mesh.nats_server import NODES

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]

LEFT, RIGHT = NODES[:2]


@pytest.fixture
def environments() -> Iterator[dict[str, dict[str, str]]]:
    folders = [Path(tempfile.mkdtemp(prefix="stoker-sim-", dir="/tmp")) for _ in range(2)]
    kept: list[_sim.Node] = []
    try:
        for seed, folder in enumerate(folders, 1):
            folder.chmod(0o755)  # jobs of other users map the node as well
            kept.append(profiles.node("8xH200", folder / "node", seed=seed))
        made = [libraries.environment(folder / "node", {"nvidia"}, {}) for folder in folders]
        yield dict(zip((LEFT, RIGHT), made, strict=True))
    finally:
        for folder in folders:
            shutil.rmtree(folder)


@pytest.fixture
def labels(request: pytest.FixtureRequest) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = getattr(request, "param", {})
    return found


@pytest.fixture
async def pair(
    tmp_path: Path, environments: dict[str, dict[str, str]], labels: dict[str, tuple[str, ...]]
) -> AsyncIterator[Servers]:
    async with founded(tmp_path, NODES[:2], environments, labels) as made:
        yield made


async def hold(servers: Servers, node: str, count: int) -> None:
    """Give so many cards of a node to a job that does not end by itself."""
    ids = tuple(f"{node}:{place}" for place in range(8))
    job = await servers.submit(
        "sleep", "600", gpu_milli=1000 * count, device_ids=ids, device_ids_mode="require",
        trace="off",
    )  # fmt: skip
    view = await servers.until_state(job, "running")
    assert view.decision and view.decision.node == node


async def chosen(servers: Servers, placement: str) -> tuple[str, schema.ExplainView]:
    """Run a job that does nothing; return its node and what explain says of it."""
    job = await servers.submit("true", gpu_milli=1000, placement=placement, trace="off")
    view = await servers.until_state(job, "succeeded")
    assert view.decision
    return view.decision.node, await servers.persist("alice", "job", "explain", job=job)


async def test_least_loaded_goes_where_most_devices_are_free(pair: Servers) -> None:
    await hold(pair, LEFT, 2)
    node, found = await chosen(pair, "leastLoaded")
    assert node == RIGHT
    assert found.reasons[0].text.startswith(f"placed on node {RIGHT}: the most free devices")
    assert found.evidence and found.evidence.chosen and found.evidence.next_best
    assert (found.evidence.chosen.compared, found.evidence.next_best.compared) == (
        "8 free",
        "6 free",
    )
    assert found.evidence.flip == f"node {LEFT} would have been chosen with more than 8 free"
    await hold(pair, RIGHT, 4)
    assert (await chosen(pair, "leastLoaded"))[0] == LEFT
    assert (await chosen(pair, "binPack"))[0] == RIGHT


@pytest.mark.soak
async def test_cost_optimized_without_labels_counts_free_devices(pair: Servers) -> None:
    await hold(pair, LEFT, 2)
    node, found = await chosen(pair, "costOptimized")
    assert node == RIGHT
    assert "no node that fits has a cost label: the most free devices" in found.reasons[0].text


@pytest.mark.parametrize(
    ("labels", "cost"),
    [({LEFT: ("cost=5",), RIGHT: ("cost=4",)}, 4), ({RIGHT: ("cheap-node=true",)}, 0)],
    indirect=["labels"],
)
async def test_cost_optimized_goes_to_the_cheap_node_and_falls_back(
    pair: Servers, cost: int
) -> None:
    await hold(pair, RIGHT, 2)
    node, found = await chosen(pair, "costOptimized")
    assert node == RIGHT
    assert found.reasons[0].text.startswith(f"placed on node {RIGHT}: the cheapest node")
    assert found.evidence and found.evidence.chosen and found.evidence.next_best
    assert found.evidence.chosen.compared == f"cost {cost}"
    assert found.evidence.next_best.node == LEFT
    await hold(pair, RIGHT, 6)
    assert (await chosen(pair, "costOptimized"))[0] == LEFT


async def test_random_goes_to_either_and_every_scheduler_agrees(pair: Servers) -> None:
    drawn = set()
    for _ in range(40):
        node, found = await chosen(pair, "random")
        assert "chosen by chance" in found.reasons[0].text
        drawn.add(node)
        if len(drawn) == 2:
            break
    assert drawn == {LEFT, RIGHT}
    assert len(pair.digests()) == 1
