# SPDX-License-Identifier: Apache-2.0
"""The clusters and requests of `bench decide`: a published trace's proportions, or equal nodes."""

from __future__ import annotations

from typing import Final

from stoker.native.errors import BadRequest
from stoker.scheduler.sim.openb import MIB, Machine, TraceTask

NODES_MAX: Final = 65_535

OPENB_MACHINES: Final = (
    # model, GPUs, milli-CPU, MiB, nodes: the node list of Alibaba's GPU trace of 2023
    ("A10", 1, 128_000, 1_048_576, 2), ("G2", 8, 96_000, 393_216, 549),
    ("G3", 8, 128_000, 786_432, 39), ("P100", 1, 8_000, 61_440, 3),
    ("P100", 2, 16_000, 122_880, 109), ("P100", 2, 64_000, 262_144, 22),
    ("T4", 2, 104_000, 524_288, 387), ("T4", 4, 96_000, 393_216, 17),
    ("V100M16", 1, 8_000, 32_768, 19), ("V100M16", 4, 32_000, 131_072, 28),
    ("V100M16", 8, 64_000, 262_144, 8), ("V100M32", 4, 48_000, 376_832, 9),
    ("V100M32", 8, 96_000, 786_432, 21),
)  # fmt: skip
OPENB_TASKS: Final = (
    # GPUs, milli of each, milli-CPU, tasks: its most frequent requests, and all of 2, 4 and 8 GPUs
    (1, 810, 3152, 1078), (1, 1000, 11300, 874), (1, 1000, 11400, 599), (1, 1000, 3152, 470),
    (1, 470, 11908, 390), (0, 0, 12500, 486), (1, 470, 8000, 360), (1, 1000, 12000, 326),
    (0, 0, 32000, 290), (1, 1000, 18708, 255), (1, 650, 11908, 253), (1, 320, 4000, 232),
    (1, 1000, 9810, 195), (0, 0, 8000, 312), (1, 1000, 8000, 164), (1, 1000, 4000, 159),
    (1, 1000, 15700, 158), (1, 1000, 11908, 153), (1, 1000, 16000, 150), (1, 230, 4000, 140),
    (1, 460, 6000, 128), (1, 1000, 14200, 93), (1, 1000, 24200, 84), (1, 590, 3152, 75),
    (1, 320, 8000, 96), (1, 550, 4152, 72), (1, 1000, 11900, 231), (1, 160, 4000, 74),
    (1, 370, 4152, 47), (1, 220, 4000, 62), (1, 110, 4000, 24), (1, 480, 4000, 19),
    (1, 50, 1000, 7), (1, 330, 4000, 7), (1, 350, 4000, 6), (1, 270, 4000, 4),
    (1, 440, 4000, 2), (1, 140, 4000, 1), (1, 290, 4000, 1), (2, 1000, 24000, 16),
    (4, 1000, 44000, 15), (8, 1000, 64200, 26), (8, 1000, 88000, 18),
)  # fmt: skip
_MEMORY_PER_CPU = 4 * MIB  # bytes for each milli-CPU of a task that names no memory


def openb_machines() -> list[Machine]:
    """Return 1,213 nodes in the trace's proportions."""
    return [
        Machine(f"{model}-{gpus}-{cpu}-{at}", cpu, memory * MIB, gpus, model)
        for model, gpus, cpu, memory, count in OPENB_MACHINES
        for at in range(count)
    ]


def uniform_machines(nodes: int, gpus: int) -> list[Machine]:
    """Return identical nodes with 18 CPUs and 64 GiB for each GPU, about as openb has."""
    if not 1 <= nodes <= NODES_MAX or not 1 <= gpus <= 64:
        raise BadRequest(f"1 to {NODES_MAX} nodes of 1 to 64 GPUs, not {nodes} of {gpus}")
    memory = 64 * 1024 * MIB * gpus
    return [Machine(f"node-{at:05}", 18_000 * gpus, memory, gpus, "GPU") for at in range(nodes)]


def openb_tasks() -> list[TraceTask]:
    """Return 8,152 tasks as in the trace: 1,088 without a GPU, 3,078 with a share of one."""
    return [
        TraceTask(cpu, cpu * _MEMORY_PER_CPU, gpus, milli)
        for gpus, milli, cpu, count in OPENB_TASKS
        for _ in range(count)
    ]
