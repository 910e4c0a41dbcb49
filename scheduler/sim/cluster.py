# SPDX-License-Identifier: Apache-2.0
"""A core with the machines of a trace, to which tasks are offered and in which they end.

Every decision is the core's, made by `propose` exactly as on a node; this file makes the requests.
A task that is not placed at once is cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from stoker.scheduler.core import Core, Limits
from stoker.scheduler.effects import Effect, Start, StateChanged
from stoker.scheduler.names import name_id
from stoker.scheduler.policies import Option, Order, Placement
from stoker.scheduler.records import (
    STATE_CODES,
    Cancel,
    DeviceSet,
    NodeUp,
    Place,
    Preempt,
    QueueSet,
    Request,
    Shares,
    TaskOutcome,
    Term,
    unpack_commands,
)
from stoker.scheduler.sim.classes import target_classes
from stoker.scheduler.sim.openb import Machine, TraceTask
from stoker.scheduler.wire_commands import Submit
from stoker.scheduler.wire_names import SUBMIT

TOLD_AT_ONCE: Final = 256
_BEFORE_BYTES_MAX = 16_384
_CLIENT = 1
_SUCCEEDED, _CANCELLED = STATE_CODES["succeeded"], STATE_CODES["cancelled"]


class Placed(NamedTuple):
    """A running task."""

    job: int
    machine: int
    """The machine's position in the list of machines."""
    shares: Shares
    attempt: int = 1


def submit(task: TraceTask, priority: int = 0) -> Submit:
    """Return the submit command for one task of the trace."""
    return Submit(
        _CLIENT,
        priority=priority,
        gpu_milli=task.demand_milli,
        cpu_milli=task.cpu_milli,
        memory_bytes=task.memory_bytes,
        models=tuple(map(name_id, task.models)),
        options=Option.PREEMPTIBLE,
    )


class Cluster:
    """The machines, at first empty, under one placement. `machines` are ordered by name."""

    def __init__(
        self,
        machines: Sequence[Machine],
        tasks: Sequence[TraceTask],
        placement: Placement,
        seed: int,
        live_max: int,
    ) -> None:
        devices = sum(machine.gpus for machine in machines)
        self.core = Core(
            Limits(len(machines), max(devices, 1), live_max, 1, live_max, live_max, 1, 1)
        )
        self._seed = seed
        self._tasks = tasks
        self._submits = [submit(task).pack() for task in tasks]
        self.now_ns = 1
        self._before = b""
        """Commands sent with the next task: cancels of unplaced tasks, outcomes of others."""
        self._tell([Term(1, 1), QueueSet(0, order=Order.ANY, placement=placement)])
        self._tell(request for each in enumerate(machines, 1) for request in _joins(*each))
        self.core.workload([each.request() for each in target_classes(tasks)])

    def offer(self, task: int) -> Placed | None:
        """Decide on this task alone, now; None if it does not fit."""
        told, self._before = self._before + self._submits[task], b""
        placed, job = None, 0
        for effect in self._step(told):
            if type(effect) is Start:
                placed = Placed(effect.job, effect.node - 1, effect.shares)
            elif type(effect) is StateChanged and effect.state == "pending":
                job = effect.job
        if job and not placed:
            self._before = Cancel(job).pack()
        return placed

    def end(self, placed: Placed) -> None:
        """End a task successfully; its resources are free before the next decision."""
        self._before += _outcome(placed, _SUCCEEDED)
        if len(self._before) > _BEFORE_BYTES_MAX:
            self._step(self._before)
            self._before = b""

    def move(self, victim: Placed, task: int) -> tuple[Placed, Placed] | None:
        """Migrate a running task to make room for this one; return both as placed.

        Returns None without a change if the core finds no place for both.
        """
        told = self._before + Preempt(victim.job, victim.attempt).pack()
        told += _outcome(victim, _CANCELLED) + submit(self._tasks[task], priority=1).pack()
        proposal = self.core.propose(told, self.now_ns, self._seed, measure=False)
        if sum(type(each) is Place for each in unpack_commands(proposal.commands)) != 2:
            return None
        self._before = b""
        effects = self.core.apply(proposal.commands, self.now_ns)
        starts = [
            Placed(e.job, e.node - 1, e.shares, e.attempt) for e in effects if type(e) is Start
        ]
        (moved,) = (each for each in starts if each.job == victim.job)
        (new,) = (each for each in starts if each.job != victim.job)
        return new, moved

    def _tell(self, requests: Iterable[Request]) -> None:
        packed = [request.pack() for request in requests]
        for at in range(0, len(packed), TOLD_AT_ONCE):
            self._step(b"".join(packed[at : at + TOLD_AT_ONCE]))

    def _step(self, requests: bytes) -> list[Effect]:
        """Propose and apply; only a task that fits no machine may be rejected."""
        proposal = self.core.propose(requests, self.now_ns, self._seed, measure=False)
        assert all(each.kind == SUBMIT for each in proposal.rejected), proposal.rejected[0].text()
        return self.core.apply(proposal.commands, self.now_ns)


def _outcome(placed: Placed, state: int) -> bytes:
    return TaskOutcome(placed.job, placed.attempt, placed.machine + 1, state).pack()


def _joins(node: int, machine: Machine) -> Iterator[Request]:
    model = name_id(machine.model)
    yield NodeUp(node, 1, 1, machine.cpu_milli, machine.memory_bytes, machine.gpus)
    for index in range(machine.gpus):
        yield DeviceSet(node, index, model=model)
