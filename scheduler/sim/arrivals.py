# SPDX-License-Identifier: Apache-2.0
"""The order in which tasks arrive: the published inflation rule, and a steady state.

Pure: positions in the list of tasks come out. The rule is that of FGD (Weng et al., USENIX ATC'23;
hkust-adsl/kubernetes-scheduler-simulator).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from stoker.native.errors import BadRequest
from stoker.scheduler.sim.chance import Chance
from stoker.scheduler.sim.openb import TraceTask

NS_PER_S: Final = 1_000_000_000
ARRIVALS_MAX: Final = 2_000_000


def inflated(
    tasks: Sequence[TraceTask], capacity_milli: int, percent: float, seed: int
) -> list[int]:
    """Return the list in random order, then drawn tasks until GPU demand is `percent` of capacity.

    A list with more demand than that loses randomly drawn tasks instead. The first draw that would
    exceed the demand is dropped and ends the drawing.
    """
    chance = Chance(seed)
    mark = capacity_milli * percent / 100
    order = list(range(len(tasks)))
    chance.shuffle(order)
    demand = sum(task.demand_milli for task in tasks)
    if not demand:
        raise BadRequest("no task asks for a GPU")
    while demand > mark and order:
        demand -= tasks[order.pop(chance.below(len(order)))].demand_milli
    while len(order) < ARRIVALS_MAX:
        drawn = chance.below(len(tasks))
        demand += tasks[drawn].demand_milli
        if demand > mark:
            return order
        order.append(drawn)
    raise BadRequest(f"{percent} % of this cluster is more than {ARRIVALS_MAX} arrivals")


class Stay(NamedTuple):
    """One arrival that leaves again; times are in ns from the start."""

    task: int
    from_ns: int
    until_ns: int


def steady(
    tasks: Sequence[TraceTask], capacity_milli: int, percent: float, seed: int, count: int
) -> tuple[list[Stay], list[Stay]]:
    """Return the tasks present at the start and `count` later arrivals by time.

    Each task stays as long as in the trace. Arrivals are independent and so frequent that on
    average they would hold `percent` of the GPUs. The tasks present at the start are drawn in
    proportion to their stay, with a random part of it left, as an observer of the endless process
    finds them.
    """
    lives = [_life_s(task) for task in tasks]
    held = sum(task.demand_milli * life for task, life in zip(tasks, lives, strict=True))
    if not held:
        raise BadRequest("no task asks for a GPU and stays")
    mean_gap_ns = NS_PER_S * held / len(tasks) / (capacity_milli * percent / 100)
    chance = Chance(seed)
    return _there(tasks, lives, capacity_milli * percent / 100, chance), _later(
        lives, mean_gap_ns, chance, count
    )


def _life_s(task: TraceTask) -> int:
    assert task.created_s is not None and task.deleted_s is not None, "see openb.check_times"
    return task.deleted_s - task.created_s


def _there(
    tasks: Sequence[TraceTask], lives: Sequence[int], mark: float, chance: Chance
) -> list[Stay]:
    weights = list(accumulate(lives))
    found: list[Stay] = []
    demand = 0
    while len(found) < ARRIVALS_MAX:
        drawn = bisect_right(weights, chance.below(weights[-1]))
        demand += tasks[drawn].demand_milli
        if demand > mark:
            break
        found.append(Stay(drawn, 0, round(chance.unit() * lives[drawn] * NS_PER_S)))
    return found


def _later(lives: Sequence[int], mean_gap_ns: float, chance: Chance, count: int) -> list[Stay]:
    now = 0.0
    found = []
    for _ in range(count):
        now += chance.gap(mean_gap_ns)
        drawn = chance.below(len(lives))
        found.append(Stay(drawn, round(now), round(now) + lives[drawn] * NS_PER_S))
    return found
