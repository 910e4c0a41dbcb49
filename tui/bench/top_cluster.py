# SPDX-License-Identifier: Apache-2.0
"""A cluster that is not there, for the benchmark of the live view: its replies as JSON.

Pure and deterministic by its seed. Every device differs in every variant, so that a view which
shows one after the other repaints all that it shows.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

from stoker.mesh.wire import schema

SECOND_NS = 1_000_000_000
START_NS = 1_800_000_000 * SECOND_NS
VARIANTS = 8
"""The device lists that follow each other."""


class ClusterSize(NamedTuple):
    """The size of the cluster."""

    nodes: int
    devices: int
    """The devices of a node."""
    jobs: int


class ClusterReplies(NamedTuple):
    """The replies of a scheduler, as they would come over the wire."""

    nodes: bytes
    devices: tuple[bytes, ...]
    jobs: bytes


def replies(size: ClusterSize, seed: int = 1) -> ClusterReplies:
    """Return the replies of a cluster of this size."""
    chance = random.Random(seed)
    lists = tuple(_devices(size, chance, turn) for turn in range(VARIANTS))
    return ClusterReplies(_nodes(size), lists, _jobs(size, chance))


def save(found: ClusterReplies, folder: Path) -> None:
    """Write the replies into a folder."""
    (folder / "nodes.json").write_bytes(found.nodes)
    (folder / "jobs.json").write_bytes(found.jobs)
    for turn, data in enumerate(found.devices):
        (folder / f"devices-{turn}.json").write_bytes(data)


def load(folder: Path, name: str) -> bytes:
    """Read one of the replies that `save` has written."""
    return (folder / f"{name}.json").read_bytes()


def _nodes(size: ClusterSize) -> bytes:
    rows = tuple(
        schema.NodeView(
            node=f"node-{at:04}", state="ready", boot_id="b", cpu_milli=96_000,
            memory_bytes=1 << 40, devices=size.devices, jobs=at % 7, observation=at + 1,
            load_milli=1000 + at, memory_free_bytes=(1 << 39) + at,
        )
        for at in range(size.nodes)
    )  # fmt: skip
    return schema.encode(schema.NodeList(nodes=rows))


def _devices(size: ClusterSize, chance: random.Random, turn: int) -> bytes:
    rows = tuple(
        _device(node, index, chance, turn)
        for node in range(size.nodes)
        for index in range(size.devices)
    )
    return schema.encode(schema.DeviceList(devices=rows))


def _device(node: int, index: int, chance: random.Random, turn: int) -> schema.DeviceView:
    busy = (chance.randrange(800) * VARIANTS + turn) / (800 * VARIANTS)
    return schema.DeviceView(
        id=f"GPU-{node:08x}-{index:04}", node=f"node-{node:04}", index=index, vendor="nvidia",
        model="H100 SXM", kind="gpu", memory_bytes=80 << 30, unavailable="", sim=True,
        granted_milli=1000 * (chance.random() < 0.8), jobs=(node * 8 + index + 1,),
        busy_ratio=busy, power_w=100 + 600 * busy, temperature_c=35 + 45 * busy,
        warning="link 2 is down" if (node + index) % 97 == 0 else "",
    )  # fmt: skip


def _jobs(size: ClusterSize, chance: random.Random) -> bytes:
    rows = tuple(_job(number, chance) for number in range(size.jobs, 0, -1))
    return schema.encode(schema.JobList(jobs=rows))


def _job(number: int, chance: random.Random) -> schema.JobView:
    runs = chance.random() < 0.7
    began = START_NS - chance.randrange(1, 90_000) * SECOND_NS
    where = f"node-{number % 1000:04}"
    share = schema.ShareView(id=f"GPU-{number:08x}", index=0, milli=1000, sim=True)
    decision = schema.DecisionView(
        id=number, node=where, devices=(share,), reason="the fewest free devices that suffice",
        latency_ns=40_000, observations=(number,),
    )  # fmt: skip
    return schema.JobView(
        job=number, user=f"user{number % 400}", name=f"train 日本 {number}", attempt=1,
        state="running" if runs else "pending", reason="", decision=decision if runs else None,
        waits="" if runs else "needs 8 free devices of one node, and none has more than 3",
        times=schema.Times(submitted_ns=began, placed_ns=began, started_ns=began if runs else None),
        spec=_spec(number),
    )  # fmt: skip


def _spec(number: int) -> schema.Spec:
    return schema.Spec(
        argv=("python", "train.py", "--seed", str(number)), cwd="/", env=None, gpu_milli=1000,
        cpu_milli=8000, memory_bytes=64 << 30, pids=None, time_limit_s=None, grace_s=5.0,
        priority=0, trace="governed", stdin=False, output_bytes_max=1 << 30, queue="default",
    )  # fmt: skip
