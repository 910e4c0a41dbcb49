# SPDX-License-Identifier: Apache-2.0
"""Moves of jobs off drained nodes: which ones the leader begins, their words, and how they stop.

Pure. Owns the rule that a job is moved by an entry of its own: whatever is lost or whoever leads
afterwards, what stops it and for how long follows from the log. A drain that ends takes no move
back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import StopJob, TaskKey
from stoker.scheduler.reasons import Reason, sentence
from stoker.scheduler.records import Preempt

if TYPE_CHECKING:
    from stoker.mesh.replica.state import ReplicaState
    from stoker.scheduler.book import Book, Job

SINCE: Final = 3
"""The feature level from which the log may have moves."""
MOVES_MAX: Final = 128
"""The most jobs that one round looks at; the others follow in the next one."""
UNSAID: Final = "on request"
"""The reason of a drain for which nobody gave one."""
GIVES_WAY: Final = frozenset({Reason.PREEMPTED, Reason.RECLAIMED, Reason.MOVED})
"""The reasons of a stop after which the job runs again, so that it may save its work first."""


def jobs_on(node: str, state: ReplicaState) -> list[int]:
    """Return the jobs that a node has, each once."""
    return sorted({task.job for task in state.core.node_tasks(name_id(node))})


def due(state: ReplicaState, after: int) -> tuple[list[Preempt], int]:
    """Return the moves of the next jobs behind `after` that may be moved, and where to go on."""
    found = {job for node in state.book.moves for job in jobs_on(node, state)}
    looked = sorted(job for job in found if job > after)[:MOVES_MAX]
    infos = [
        info
        for job in looked
        if state.core.move_refusal(job) == Reason.NONE and (info := state.core.job(job)) is not None
    ]
    moves = [Preempt(info.job, info.attempt, move=True) for info in infos]
    return moves, looked[-1] if len(looked) == MOVES_MAX else 0


def begun(book: Book, record: Job) -> str:
    """Note how long the job has to save its work, and return why it is moved."""
    assert record.decision is not None
    nodes = [record.decision.node, *(rank.decision.node for rank in record.ranks)]
    node = next((each for each in nodes if each in book.moves), None)
    if node is None:  # the drain ends in the same entry
        return sentence(Reason.MOVED)
    move = book.moves[node]
    if move.grace_s is not None:
        book.graces[record.job] = move.grace_s
    by = f" by {move.by}" if move.by else ""
    why = book.drained.get(node, UNSAID)
    return f"moved off {node}, drained{by}" + (f": {why}" if why != UNSAID else "")


def waits(record: Job) -> str:
    """Return the reason of a job that was moved and has no other node yet."""
    return f"{record.reason}; it runs again elsewhere"


def cut_short(record: Job, reason: int, state: ReplicaState) -> Iterator[tuple[str, StopJob]]:
    """Yield by node the stops of a job that was to run again and is not any more: it has nothing
    to save its work for."""
    if reason in GIVES_WAY:
        return
    for task in state.core.job_tasks(record.job):
        key = state.book.key(task.job, task.attempt, task.task)
        yield state.node_name(task.node), StopJob(*key, record.reason)


def stop_of(book: Book, key: TaskKey, why: str, reason: int) -> StopJob:
    """Return the command that stops a task; one that gives way is told to save its work first."""
    record = book.live(key.job)
    if record is None or reason not in GIVES_WAY:
        return StopJob(*key, why)
    spec = record.decoded_spec()
    grace_s = book.graces.get(key.job, spec.grace_s)
    return StopJob(*key, why, "cancelled", spec.checkpoint_signal, grace_s)
