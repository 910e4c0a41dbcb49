# SPDX-License-Identifier: Apache-2.0
"""The leader's side of a node's command chain: commands in parts, and the desired state.

Owns the chain: each sealed command names the one before it, and an answer to a StateRequest brings
a node to exactly the position from which the next command follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from stoker.mesh.identity.identity import Signs
from stoker.mesh.log import roster_change
from stoker.mesh.replica import moves
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire import command
from stoker.mesh.wire.command import (
    COMMAND_BYTES_MAX,
    DesiredState,
    NodeCommand,
    Position,
    StateRequest,
)
from stoker.scheduler.book import Book
from stoker.scheduler.effects import TaskInfo
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import Action, StartJob, StopJob, TaskKey
from stoker.scheduler.reasons import Reason

_BODY_BYTES = COMMAND_BYTES_MAX - 2048
"""The most bytes of actions in one sealed record."""
_STARTS_BYTES = 160 * 1024
_STOPS_BYTES = 96 * 1024
FORGETS_MAX = 4096
"""The most jobs to forget in one DesiredState; the rest follow in the next one."""
_encoder = msgspec.msgpack.Encoder()


class NodeChannel:
    """One node in one term."""

    def __init__(self, state: ReplicaState, node: str, signer: Signs, term: int, seq: int) -> None:
        self.node = node
        self.position = Position(term, seq, command.NO_HASH)
        self._state = state
        self._signer = signer

    def commands(self, seq: int, now_ns: int, actions: list[Action]) -> Iterator[bytes]:
        """Yield the actions of entry `seq` as sealed NodeCommands, each chained to the last."""
        for part in _parts(actions):
            at = self.position
            body = command.encode(
                NodeCommand(
                    command.FORMAT,
                    self._state.cluster,
                    self.node,
                    at.term,
                    seq,
                    at.seq,
                    at.hash,
                    now_ns,
                    part,
                )
            )
            self.position = Position(at.term, seq, command.body_hash(body))
            yield command.seal_body(body, self._signer)

    def desired(
        self, request: StateRequest, now_ns: int, vouchers: tuple[bytes, ...] = ()
    ) -> bytes:
        """Return the sealed state that the node should be in now, as far as it fits."""
        have = set(request.have)
        tasks = self._state.core.node_tasks(name_id(self.node))
        keys = {each: key_of(each, self._state.book) for each in tasks}
        wanted = tuple(keys.values())
        stopping = {keys[t] for t in tasks if "stopping" in (t.state, t.job_state)}
        # Only attempts that were never reported as running may start; a node that lost a running
        # one must report that.
        old = have | stopping
        new = [keys[t] for t in tasks if t.state == "starting" and keys[t] not in old]
        starts, more = self._starts(new)
        record = DesiredState(
            command.FORMAT,
            self._state.cluster,
            self.node,
            self.position.term,
            self.position.seq,
            self.position.hash,
            request.nonce,
            now_ns,
            wanted,
            starts,
            tuple(_within(_STOPS_BYTES, self._stops(have, set(wanted), stopping))),
            more,
            self._forgets(have),
            self._settle(),
            tuple(keys[each] for each in tasks if _may_run(each)),
            roster_change.keys(self._state.schedulers),
            vouchers,
        )
        return command.seal(record, self._signer)

    def _settle(self) -> int:
        eviction = self._state.book.evicted.get(self.node)
        return eviction.index if eviction is not None else 0

    def _starts(self, keys: Iterable[TaskKey]) -> tuple[tuple[StartJob, ...], bool]:
        starts: list[StartJob] = []
        size = 0
        for key in keys:
            record = self._state.book.live(key.job)
            if record is None or record.decision is None:
                continue
            start = self._state.start_action(record, key.task)
            size += len(_encoder.encode(start))
            if starts and size > _STARTS_BYTES:
                return tuple(starts), True
            starts.append(start)
        return tuple(starts), False

    def _stops(
        self,
        have: set[TaskKey],
        wanted: set[TaskKey],
        stopping: set[TaskKey],
    ) -> Iterator[StopJob]:
        for key in sorted(stopping):
            record, info = self._state.book.live(key.job), self._state.core.job(key.job)
            why = record.reason if record is not None else "cancelled"
            reason = info.reason if info is not None else Reason.NONE
            yield moves.stop_of(self._state.book, key, why, reason)
        for key in sorted(have - wanted):
            if key.placing == self._state.book.placing(key.job, key.attempt):
                yield StopJob(*key, "the log says that this attempt is over", "lost")

    def _forgets(self, have: set[TaskKey]) -> tuple[int, ...]:
        gone = {key.job for key in have if self._state.core.job(key.job) is None}
        return tuple(sorted(gone)[:FORGETS_MAX])


def _may_run(task: TaskInfo) -> bool:
    """Return True if the task's gang was released and the task is not known to run."""
    return task.released and task.state == "starting" and task.job_state != "stopping"


def key_of(task: TaskInfo, book: Book) -> TaskKey:
    """Return the identity of a task that the core has on a node."""
    return book.key(task.job, task.attempt, task.task)


def _within(room: int, stops: Iterable[StopJob]) -> Iterator[StopJob]:
    """Yield the stops that fit; the node requests the others when it has ended these."""
    for stop in stops:
        room -= len(_encoder.encode(stop))
        if room < 0:
            return
        yield stop


def _parts(actions: list[Action]) -> Iterator[tuple[Action, ...]]:
    part: list[Action] = []
    size = 0
    for action in actions:
        length = len(_encoder.encode(action))
        if part and size + length > _BODY_BYTES:
            yield tuple(part)
            part, size = [], 0
        part.append(action)
        size += length
    if part:
        yield tuple(part)
