# SPDX-License-Identifier: Apache-2.0
"""The cluster for the replay of a trace of jobs, and the division of a job's devices into tasks.

Invariant: nodes are numbered from 1 and hold devices of one model; within a model every node but
the last holds the same number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from stoker.native.errors import BadRequest
from stoker.scheduler.names import name_id
from stoker.scheduler.records import TASKS_MAX, DeviceSet, NodeLabel, NodeUp, Request

NODE_GPUS_MAX: Final = 64
TASK_GPUS_MAX: Final = 16
NODES_MAX: Final = 100_000
_HOST = 1 << 20
"""The CPU (in thousandths) and memory of a node; jobs of these traces request none."""


class SimNode(NamedTuple):
    model: str
    gpus: int


class TraceCluster(NamedTuple):
    nodes: tuple[SimNode, ...]

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.nodes)

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node.model for node in self.nodes))

    @property
    def node_gpus(self) -> int:
        """The number of devices of the largest node."""
        return max(node.gpus for node in self.nodes)

    def requests(self, costs: dict[str, int]) -> list[Request]:
        """Return commands that register these nodes; `costs` are by model, for cost-optimized."""
        made: list[Request] = []
        for number, (model, gpus) in enumerate(self.nodes, 1):
            made.append(NodeUp(number, 1, 1, _HOST, _HOST, gpus))
            made += [DeviceSet(number, i, model=name_id(model)) for i in range(gpus)]
            if model in costs:
                label = name_id(f"model={model}")
                made.append(NodeLabel(number, label, costs[model], cost=True))
        return made


def cluster_of(parts: Sequence[tuple[str, int]], node_gpus: int) -> TraceCluster:
    """Return a cluster with `node_gpus` devices a node; the last node of a model has the rest.

    Raises BadRequest for invalid numbers.
    """
    if not 1 <= node_gpus <= NODE_GPUS_MAX:
        raise BadRequest(f"a node has 1 to {NODE_GPUS_MAX} GPUs, not {node_gpus}")
    if not parts or any(gpus < 1 for _, gpus in parts):
        raise BadRequest("a cluster has at least one GPU of each type")
    if sum(gpus for _, gpus in parts) > NODES_MAX * node_gpus:
        raise BadRequest(f"a cluster has at most {NODES_MAX} nodes")
    nodes: list[SimNode] = []
    for model, gpus in parts:
        nodes += [SimNode(model, node_gpus)] * (gpus // node_gpus)
        if gpus % node_gpus:
            nodes.append(SimNode(model, gpus % node_gpus))
    return TraceCluster(tuple(nodes))


def parse_types(text: str) -> list[tuple[str, int]]:
    """Parse "v100:36,p100:36" into device models and their numbers."""
    parts = []
    for word in text.split(","):
        model, colon, number = word.strip().partition(":")
        if not model or not colon or not number.isascii() or not number.isdigit():
            raise BadRequest(f"{word!r} is no TYPE:GPUS, such as v100:36")
        parts.append((model, int(number)))
    if len({model for model, _ in parts}) < len(parts):
        raise BadRequest(f"{text!r} names a type twice")
    return parts


def tasks_of(gpus: int, node_gpus: int) -> tuple[int, int]:
    """Return (tasks, devices of each): one task if a node can hold it, else equal large ones."""
    most = min(node_gpus, TASK_GPUS_MAX)
    each = next(each for each in range(min(most, gpus), 0, -1) if gpus % each == 0)
    if gpus // each > TASKS_MAX:
        raise BadRequest(f"{gpus} GPUs would take more than {TASKS_MAX} tasks on such nodes")
    return gpus // each, each
