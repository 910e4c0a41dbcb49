# SPDX-License-Identifier: Apache-2.0
"""The classes of tasks that a cluster is kept fit for: the shapes that most tasks have.

The rule is that of FGD (Weng et al., USENIX ATC'23): the most frequent shapes that cover 95 % of
all tasks, those without a GPU among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from stoker.scheduler.hints import CLASSES_MAX, RequestClass
from stoker.scheduler.names import name_id
from stoker.scheduler.sim.openb import TraceTask

COVER_PCT: Final = 95


class TaskClass(NamedTuple):
    """One shape and how many tasks have it. Tasks that differ in memory alone are one shape."""

    cpu_milli: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...]
    number: int
    memory_bytes: int = 0
    """The mean memory of these tasks."""

    def request(self) -> RequestClass:
        """Return the class as the core's request class."""
        models = tuple(map(name_id, self.models))
        gpu_milli = self.gpus * self.gpu_milli
        return RequestClass(self.number, gpu_milli, self.cpu_milli, self.memory_bytes, models)


_Shape = tuple[int, int, int, tuple[str, ...]]


def target_classes(tasks: Iterable[TraceTask], cover_pct: float = COVER_PCT) -> list[TaskClass]:
    """Return the classes, the most frequent first, among equals the smallest demand first."""
    counts: Counter[_Shape] = Counter()
    memory: Counter[_Shape] = Counter()
    for task in tasks:
        shape = (task.cpu_milli, task.gpus, task.gpu_milli, task.models)
        counts[shape] += 1
        memory[shape] += task.memory_bytes
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0][1:3], item[0]))
    need = sum(counts.values()) * cover_pct / 100
    found: list[TaskClass] = []
    for shape, count in ranked:
        if need <= 0 or len(found) == CLASSES_MAX:
            break
        found.append(TaskClass(*shape, count, memory[shape] // count))
        need -= count
    return found
