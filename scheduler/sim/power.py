# SPDX-License-Identifier: Apache-2.0
"""Power draw of a cluster: the wattage table and the model of PWR.

Model and figures: Lettich et al., "Power- and Fragmentation-aware Online Scheduling for GPU
Datacenters", CCGrid 2025, as in Fr4nz83/PWR-plugin-kubernetes
(pkg/type/open-gpu-share/utils/const.go, pkg/type/resource.go). Their evaluation names no CPU
models, so every machine has the sockets that their code assumes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from stoker.native.errors import BadRequest
from stoker.scheduler.core import Core
from stoker.scheduler.names import name_id
from stoker.scheduler.sim.cluster import Placed
from stoker.scheduler.sim.openb import Machine, TraceTask


class Watts(NamedTuple):
    """The idle and full draw of a GPU; with any task on it, it draws `full`."""

    idle: int
    full: int


class Socket(NamedTuple):
    """One CPU socket, which draws `full` as soon as one core has work; a core is two vCPUs."""

    idle: int
    full: int
    cores: int


SOCKET: Final = Socket(15, 120, 16)
"""The socket of an Intel Xeon E5-2682 v4."""

GPUS: Final[dict[str, Watts]] = {
    "T4": Watts(10, 70),
    "A10": Watts(30, 150),
    "P100": Watts(25, 250),
    "V100M16": Watts(30, 300),
    "V100M32": Watts(30, 300),
    "A100": Watts(50, 400),
    "G2": Watts(30, 150),
    "G3": Watts(50, 400),
}
"""The draw of GPUs by the trace's model names; its undisclosed G2 counts as an A10 and G3 as an
A100.
"""


def check_models(machines: Iterable[Machine], file: str) -> None:
    """Raise BadRequest for a GPU model whose draw is unknown."""
    for machine in machines:
        if machine.gpus and machine.model not in GPUS:
            raise BadRequest(
                f"{file}: no wattage is known for GPU model {machine.model!r} of {machine.name}",
                hint=f"Known are {', '.join(GPUS)}",
            )


def tell(core: Core) -> None:
    """Give the core this table for Placement.POWER."""
    for model, watts in GPUS.items():
        core.model_power(name_id(model), watts.idle, watts.full)
    core.cpu_power(2000 * SOCKET.cores, SOCKET.idle, SOCKET.full)


def cpu_watts(machine: Machine, used_milli: int) -> int:
    """Return the watts of a machine's sockets while `used_milli` of its CPU is allocated."""
    cores = -(-machine.cpu_milli // 2000)
    working = cores - (machine.cpu_milli - used_milli) // 2000
    active = -(-working // SOCKET.cores)
    return (-(-cores // SOCKET.cores) - active) * SOCKET.idle + active * SOCKET.full


class Meter:
    """The total draw of all machines, updated as tasks are placed; no task leaves."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines = machines
        self._cpu_used = [0] * len(machines)
        self._busy = [0] * len(machines)
        self._given = self._cpu = 0
        self._idle = self.watts = sum(
            cpu_watts(each, 0) + (each.gpus * GPUS[each.model].idle if each.gpus else 0)
            for each in machines
        )
        self._cheapest = _cheapest(machines)

    def took(self, task: TraceTask, placed: Placed) -> None:
        at = placed.machine
        self._given += task.demand_milli
        self._cpu += task.cpu_milli
        machine = self._machines[at]
        used = self._cpu_used[at] + task.cpu_milli
        self.watts += cpu_watts(machine, used) - cpu_watts(machine, self._cpu_used[at])
        self._cpu_used[at] = used
        for share in placed.shares:
            if not self._busy[at] >> share.index & 1:
                self._busy[at] |= 1 << share.index
                self.watts += GPUS[machine.model].full - GPUS[machine.model].idle

    def bound(self) -> float:
        """Return a lower bound on the watts of any placement of these tasks.

        It splits tasks: the GPUs that add least are filled one after the other, and so are CPU
        sockets.
        """
        watts = self._idle + self._cpu / (2000 * SOCKET.cores) * (SOCKET.full - SOCKET.idle)
        left = self._given
        for adds, milli in self._cheapest:
            watts += adds * min(left, milli) / 1000
            left -= min(left, milli)
        return watts


def _cheapest(machines: Sequence[Machine]) -> list[tuple[int, int]]:
    """Return (watts that one GPU adds, thousandths of such GPUs), least first."""
    found: Counter[int] = Counter()
    for machine in machines:
        if machine.gpus:
            watts = GPUS[machine.model]
            found[watts.full - watts.idle] += 1000 * machine.gpus
    return sorted(found.items())


class MeanDraw(NamedTuple):
    """The mean draw of one placement at each whole percent of arrived demand."""

    allocation_pct: list[float]
    watts: list[float]

    def at_allocation(self, pct: float) -> float | None:
        """Return the watts at this allocation, interpolated; None if it was never reached."""
        points = list(zip(self.allocation_pct, self.watts, strict=True))
        for (low, low_watts), (high, high_watts) in pairwise(points):
            if low <= pct <= high:
                part = (pct - low) / (high - low) if high > low else 0.0
                return low_watts + part * (high_watts - low_watts)
        return None


def saving_pct(of: MeanDraw, against: MeanDraw, pct: float) -> float | None:
    """Return the percentage that `of` saves at this allocation; None if either misses it."""
    ours, theirs = of.at_allocation(pct), against.at_allocation(pct)
    return None if ours is None or theirs is None else 100 * (1 - ours / theirs)
