# SPDX-License-Identifier: Apache-2.0
"""Clusters from numbers, and how a job's devices are cut into tasks."""

from __future__ import annotations

import pytest

from stoker.native.errors import BadRequest
from stoker.scheduler.records import DeviceSet, NodeLabel, NodeUp
from stoker.scheduler.sim.jct_cluster import SimNode, cluster_of, parse_types, tasks_of


def test_the_last_node_of_a_type_has_the_rest() -> None:
    cluster = cluster_of([("v100", 10), ("k80", 4)], 4)
    full, rest = SimNode("v100", 4), SimNode("v100", 2)
    assert cluster.nodes == (full, full, rest, SimNode("k80", 4))
    assert (cluster.gpus, cluster.models, cluster.node_gpus) == (14, ("v100", "k80"), 4)


def test_the_core_is_told_of_every_node_and_device() -> None:
    told = cluster_of([("v100", 3), ("k80", 1)], 2).requests({"k80": 2})
    assert [type(each) for each in told].count(NodeUp) == 3
    devices = [(each.node, each.device) for each in told if isinstance(each, DeviceSet)]
    assert devices == [(1, 0), (1, 1), (2, 0), (3, 0)]
    assert [(e.node, e.value) for e in told if isinstance(e, NodeLabel)] == [(3, 2)]


@pytest.mark.parametrize(
    ("gpus", "node_gpus", "shape"),
    [(1, 8, (1, 1)), (8, 8, (1, 8)), (16, 8, (2, 8)), (6, 4, (2, 3)), (12, 8, (2, 6)),
     (7, 4, (7, 1)), (128, 8, (16, 8)), (32, 32, (2, 16)), (5, 8, (1, 5)), (24, 64, (2, 12))],
)  # fmt: skip
def test_a_job_is_cut_into_the_largest_equal_tasks(
    gpus: int, node_gpus: int, shape: tuple[int, int]
) -> None:
    assert tasks_of(gpus, node_gpus) == shape


def test_a_job_of_too_many_tasks_is_refused() -> None:
    with pytest.raises(BadRequest, match="more than 64 tasks"):
        tasks_of(127, 8)


def test_types_are_read() -> None:
    assert parse_types("v100:36, k80:4") == [("v100", 36), ("k80", 4)]


@pytest.mark.parametrize("text", ["", "v100", "v100:", ":3", "v100:-1", "v100:x", "a:1,a:2", "a:²"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_types(text)


@pytest.mark.parametrize(
    ("parts", "node_gpus"), [([], 8), ([("a", 0)], 8), ([("a", 8)], 0), ([("a", 8)], 65),
                             ([("a", 100_001)], 1)],
)  # fmt: skip
def test_what_is_no_cluster_is_refused(parts: list[tuple[str, int]], node_gpus: int) -> None:
    with pytest.raises(BadRequest):
        cluster_of(parts, node_gpus)
