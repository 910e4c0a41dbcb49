# SPDX-License-Identifier: Apache-2.0
"""The cluster of the benchmark: its size, its changes, and that its seed decides it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from stoker.mesh.wire import schema
from stoker.tui.bench import top_cluster
from stoker.tui.bench.top_cluster import ClusterSize

SIZE = ClusterSize(5, 3, 20)


def test_it_has_the_size_that_was_wanted_and_every_device_changes(tmp_path: Path) -> None:
    found = top_cluster.replies(SIZE)
    assert found == top_cluster.replies(SIZE) != top_cluster.replies(SIZE, seed=2)
    top_cluster.save(found, tmp_path)
    nodes: Any = schema.decode_reply("node", "list", top_cluster.load(tmp_path, "nodes"))
    jobs: Any = schema.decode_reply("job", "list", top_cluster.load(tmp_path, "jobs"))
    lists: list[Any] = [
        schema.decode_reply("device", "list", top_cluster.load(tmp_path, f"devices-{turn}"))
        for turn in range(top_cluster.VARIANTS)
    ]
    assert (len(nodes.nodes), len(jobs.jobs)) == (5, 20)
    assert {job.state for job in jobs.jobs} == {"running", "pending"}
    for one, other in itertools.pairwise(lists):
        assert len(one.devices) == 15
        for now, then in zip(one.devices, other.devices, strict=True):
            assert (now.node, now.id) == (then.node, then.id)
            assert now.busy_ratio != then.busy_ratio
