# SPDX-License-Identifier: Apache-2.0
"""The deterministic core, typed: propose on the leader, apply on every replica, read at any time.

All decisions are made in `_core`, which takes bytes; its results become tuples here. The same
snapshot and commands give the same bytes on every machine; time and chance are arguments.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from stoker.native import _core
from stoker.native.errors import BadRequest, Refused, StokerError, from_errno
from stoker.scheduler import effects, hints
from stoker.scheduler.effects import (
    DeviceState,
    Effect,
    Explained,
    JobInfo,
    Label,
    NodeInfo,
    QueueInfo,
    Rejected,
    Speed,
    TaskInfo,
)
from stoker.scheduler.hints import Candidate, Evidence, RequestClass, Sample
from stoker.scheduler.job_figures import JobFigures
from stoker.scheduler.reasons import Reason
from stoker.scheduler.records import BATCH_REQUESTS_MAX, Place, Prefer, Request
from stoker.scheduler.wire_names import DIGEST

if _core.LAYOUT != DIGEST:
    raise ImportError("stoker.scheduler and the compiled core do not match: run `make build`")

_CHOICE_ROW: Final = Struct("<QQ")


class Limits(NamedTuple):
    """Named maxima of the state. They are part of it: all replicas of a log use the same."""

    nodes: int = 256
    """The most nodes."""
    devices: int = 4096
    """The most devices of all nodes."""
    jobs: int = 163_840
    """The most jobs waiting and placed together."""
    finished: int = 24_576
    """The most ended jobs; beyond it the one that ended first is forgotten.

    The leader forgets jobs beyond two thirds of it, by user (`scheduler/shares.py`).
    """
    tasks: int = 65_536
    """The most placed tasks of all jobs together."""
    node_tasks: int = 4_096
    """The most placed tasks of one node."""
    keys: int = 65_536
    """The most idempotency keys; beyond it the oldest is forgotten."""
    queues: int = 64
    """The most queues besides queue 0."""


class Proposal(NamedTuple):
    """A batch to append to the log. `commands` may be empty: then there is nothing to append."""

    commands: bytes
    rejected: list[Rejected]
    latency_ns: int
    """The time inside the core, which every Place of the batch has too."""
    more: bool
    """True if a bound was reached before the end of the queue: propose again when this batch is
    applied. A new leader proposes once without requests, for the jobs that its predecessor left
    waiting.
    """


class Core:
    """One replica's state machine; it is not thread-safe."""

    def __init__(self, limits: Limits | None = None) -> None:
        try:
            self._core = _core.Core(*(limits or Limits()))
        except OSError as error:
            raise BadRequest(f"a limit is 0 or too large: {limits}") from error

    @classmethod
    def restore(cls, snapshot: bytes) -> Core:
        """Return the state of a snapshot with its limits; Corrupt if the bytes are not one."""
        core = cls.__new__(cls)
        try:
            core._core = _core.Core.restore(snapshot)
        except OSError as error:
            raise _from_os_error(error, f"restore of {len(snapshot)} bytes") from error
        return core

    def resized(self, limits: Limits) -> Core:
        """Return this state in a core of other limits, without observations, which stay local.

        Raises BadRequest for a limit that is 0 or too large, Refused if the state does not fit.
        """
        core = type(self).__new__(type(self))
        try:
            core._core = _core.Core.resize(self.snapshot(), *limits)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise Refused("what the cluster has now does not fit into these limits") from error
            raise BadRequest(f"a limit is 0 or too large: {limits}") from error
        return core

    def snapshot(self) -> bytes:
        """Return canonical bytes with their digest: equal states give equal bytes."""
        return self._core.snapshot()

    def propose(
        self,
        requests: bytes | Iterable[Request],
        now_ns: int,
        seed: int = 0,
        *,
        measure: bool = True,
    ) -> Proposal:
        """Decide on the effect of these requests without changing the state.

        Raises BadRequest for bytes that are no requests, Refused past BATCH_REQUESTS_MAX of them.
        `measure=False` leaves every latency 0, for bytes that must not depend on a clock.
        """
        raw = requests if isinstance(requests, bytes) else b"".join([r.pack() for r in requests])
        try:
            commands, rejected, latency_ns, more = self._core.propose(raw, now_ns, seed, measure)
        except OSError as error:
            raise _refusal(error) from error
        return Proposal(commands, Rejected.unpack_all(rejected), latency_ns, more)

    def apply(self, commands: bytes, now_ns: int) -> list[Effect]:
        """Carry out a committed batch. Raises Corrupt, having changed nothing, for malformed bytes.

        A command that does not fit the state changes nothing and is reported by Ignored.
        """
        return effects.unpack_effects(self.apply_packed(commands, now_ns))

    def apply_packed(self, commands: bytes, now_ns: int) -> bytes:
        """Carry out a committed batch as `apply` does; return the packed effects."""
        try:
            return self._core.apply(commands, now_ns)
        except OSError as error:
            raise _from_os_error(error, f"apply of {len(commands)} bytes") from error

    def observe(self, node: int, observation: int, load_milli: int) -> bool:
        """Store a node's latest sample, which is a hint outside the state; False if unknown."""
        return self._core.observe(node, observation, load_milli)

    def observe_device(self, node: int, index: int, sample: Sample) -> bool:
        """Store a device's latest sample for placements by signals; False if unknown."""
        return self.observe_packed(node, index, sample.pack())

    def observe_packed(self, node: int, index: int, sample: bytes) -> bool:
        """Store a device's latest sample as `hints.pack_sample` makes it; False if unknown."""
        return self._core.observe_device(node, index, sample)

    def evidence(self, job: int, attempt: int, task: int = 0) -> Evidence | None:
        """Return what this replica read when it placed a task by signals.

        None if it did not, or if it has placed EVIDENCE_MAX tasks since.
        """
        raw = self._core.evidence(job, attempt, task)
        return hints.unpack_evidence(raw) if raw else None

    def speeds(self, series: int = 0) -> list[Speed]:
        """Return the measured speeds of a series, of all series for 0; the newest comes last."""
        return Speed.unpack_all(self._core.speeds(series))

    def model_power(self, model: int, idle_w: float, full_w: float) -> None:
        """Set the watts of an unused and a fully used device of a model, for Placement.POWER.

        Raises BadRequest for full below idle, Refused past 64 models.
        """
        self._told(self._core.model_power, model, round(idle_w * 1000), round(full_w * 1000))

    def cpu_power(self, socket_milli: int, idle_w: float, full_w: float) -> None:
        """Set the CPUs of one socket, and its watts unused and fully used; 0: unknown."""
        watts = round(idle_w * 1000), round(full_w * 1000)
        self._told(self._core.cpu_power, socket_milli, *watts)

    def workload(self, classes: Iterable[RequestClass]) -> None:
        """Set the expected requests for Placement.BEST and FGD; with none, recent submits are used.

        Raises Refused past CLASSES_MAX, BadRequest for a weight of 0 or shares that no job may
        have. This discards all cached ratings, so it must not be called for every decision.
        """
        self._told(self._core.workload, b"".join([one.pack() for one in classes]))

    def workload_learn(self) -> int:
        """Expect the requests counted so far, also from a restored snapshot's jobs.

        Without this they are looked at after every 1,024 submits. Returns the number of classes; 0
        while others are given. This discards all cached ratings.
        """
        return self._core.workload_learn()

    def choice(
        self, job: int, attempt: int, ranks: Sequence[tuple[int, int]], reason: int = 0
    ) -> None:
        """Tell the rank of each node for an attempt of a job with Placement.SCORED, the highest the
        best; or by `reason` why there is none, so that Placement.BEST is used.

        Raises BadRequest for more than CANDIDATES_MAX nodes.
        """
        rows = b"".join(_CHOICE_ROW.pack(*row) for row in ranks)
        self._told(self._core.choice, job, attempt, reason, rows)

    def candidates(
        self, job: int, now_ns: int, seed: int = 0, chosen: Iterable[Place | Prefer] = ()
    ) -> list[Candidate]:
        """Return nodes for the next task of a pending job after the tasks in `chosen`, tried first.

        At most CANDIDATES_MAX are returned, beginning at a node chosen by `seed`. Raises NotFound
        if the job is not pending, BadRequest if `chosen` is impossible.
        """
        raw = b"".join([place.pack() for place in chosen])
        try:
            found = self._core.candidates(job, raw, now_ns, seed)
        except OSError as error:
            raise _from_os_error(error, f"candidates of job {job}") from error
        return hints.unpack_candidates(found)

    def scores_check(self) -> bool:
        """Return True if every stored score equals one computed from scratch; for tests."""
        return self._core.scores_check()

    @staticmethod
    def _told(tell: Callable[..., None], *what: int | bytes) -> None:
        try:
            tell(*what)
        except (OSError, TypeError) as error:
            if isinstance(error, OSError) and error.errno in (errno.E2BIG, errno.ENOSPC):
                raise Refused("more than the core keeps") from error
            raise BadRequest("these figures cannot be") from error

    def digest(self) -> int:
        """Return a 64-bit digest of the whole state; this takes a pass over it."""
        return self._core.digest()

    def explain(self, job: int) -> list[Explained]:
        """Return the ranked reasons for the job's state and place; empty for an unknown job."""
        return Explained.unpack_all(self._core.explain(job))

    def move_refusal(self, job: int) -> Reason:
        """Return why a running job may not be moved off a node that takes no jobs; NONE if it
        may."""
        return Reason(self._core.move_refusal(job))

    def job_figures(self, job: int) -> JobFigures | None:
        """Return what every start and every row of a list asks of a job, for a part of the time."""
        raw = self._core.job(job)
        return JobFigures.unpack(raw) if raw else None

    def job(self, job: int) -> JobInfo | None:
        raw = self._core.job(job)
        return JobInfo.unpack(raw) if raw else None

    def node(self, node: int) -> NodeInfo | None:
        raw = self._core.node(node)
        return NodeInfo.unpack(raw) if raw else None

    def nodes(self) -> list[int]:
        """Return the ids of all known nodes, up or down."""
        return self._core.nodes()

    def devices(self, node: int) -> list[DeviceState]:
        """Return the node's devices by index; empty for an unknown node."""
        return DeviceState.unpack_all(self._core.devices(node))

    def node_tasks(self, node: int) -> list[TaskInfo]:
        """Return the tasks that the node should be running, in the order they were placed."""
        return TaskInfo.unpack_all(self._core.node_tasks(node))

    def job_tasks(self, job: int) -> list[TaskInfo]:
        """Return the job's placed tasks that have not ended."""
        return TaskInfo.unpack_all(self._core.job_tasks(job))

    def labels(self, node: int) -> list[Label]:
        """Return labels and taints of a node by hash; empty for an unknown node."""
        return Label.unpack_all(self._core.labels(node))

    def queue(self, queue: int, now_ns: int) -> QueueInfo | None:
        raw = self._core.queue(queue, now_ns)
        return QueueInfo.unpack(raw) if raw else None

    def queues(self) -> list[int]:
        """Return the ids of all queues, queue 0 first."""
        return self._core.queues()

    def due_ns(self) -> int:
        """Return the entry time from which propose has a held job to place; 0 for none."""
        return self._core.due()

    def key_window(self, client: int, key: bytes) -> int:
        """Return the entry time before which a key of this client may have been forgotten.

        An unknown key first used before it may be a repeat; 0 if none was forgotten.
        """
        return self._core.key_window(client, key)

    def counters(self) -> dict[str, int]:
        """Return event totals since the first entry, and the number of each kind of object."""
        return self._core.counters()

    def bench_decide(
        self,
        submits: bytes,
        fill_milli: int,
        seed: int,
        *,
        warm: int = 0,
        decisions: int = 0,
        batches: int = 0,
        naive: int = 0,
        unique: int = 0,
    ) -> tuple[dict[str, bytes], dict[str, int]]:
        """Run `native/core/bench/bench_decide.h`; return ns as uint32 arrays, and counts.

        Only `bench_decide` calls it; the jobs stay.
        """
        try:
            return self._core.bench_decide(
                submits, fill_milli, warm, decisions, batches, naive, unique, seed
            )
        except OSError as error:
            raise _from_os_error(error, "bench decide") from error

    @property
    def term(self) -> int:
        return self._core.term()

    @property
    def leader(self) -> int:
        return self._core.leader()

    @property
    def limits(self) -> Limits:
        return Limits(*self._core.limits())

    def check(self) -> str:
        """Return the name of the first broken invariant or "", by a pass over the state."""
        return self._core.check()


def _from_os_error(error: OSError, what: str) -> StokerError:
    return from_errno(-(error.errno or 0), what)


def _refusal(error: OSError) -> StokerError:
    if error.errno == errno.E2BIG:
        return Refused(f"a batch has at most {BATCH_REQUESTS_MAX} requests")
    return BadRequest("these bytes are no requests")
