# SPDX-License-Identifier: Apache-2.0
"""The ranks of a gang in the job book: where they are, what their nodes said of them last, and what
the end of one means for the words about all.

Pure. Owns the rule that the first rank that does not succeed is the reason of the attempt's end, by
its number and node; the ends of the others, which follow from it, say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from stoker.native.errors import NotFound
from stoker.scheduler.book import Attempt, Job
from stoker.scheduler.effects import StateChanged
from stoker.scheduler.nouns import ENDED, NOT_BEGUN, Gang, NodeReport, Outcome, Usage
from stoker.scheduler.reasons import Reason

LOOPBACK = "127.0.0.1"
_LOST = frozenset({Reason.NODE_EVICTED, Reason.NODE_REBOOTED})
_CALLED_OFF = frozenset({Reason.PREEMPTED, Reason.RECLAIMED, Reason.MOVED, Reason.CANCEL_REQUESTED})
NAMED_MAX = 4
"""The most ranks that a reason names one by one."""


def gang_of(record: Job, nodes: Mapping[str, NodeReport]) -> Gang | None:
    """Return what each rank is told of the others; None for a job of one task."""
    if not record.ranks:
        return None
    names = [rank.decision.node for rank in record.ranks]
    known = tuple(dict.fromkeys(names))
    places = tuple(known.index(name) for name in names)
    return Gang(known, places, _address(known, nodes), record.master_port)


def _address(names: tuple[str, ...], nodes: Mapping[str, NodeReport]) -> str:
    """Return the address of the first node, as the others reach it."""
    if len(names) == 1:
        return LOOPBACK
    report = nodes.get(names[0])
    host = report.ping.rpartition(":")[0].strip("[]") if report is not None else ""
    return host or names[0]


def check_rank(record: Job, rank: int) -> None:
    """Raise NotFound if the job has no such rank; every job has a rank 0."""
    tasks = record.decoded_spec().tasks if rank else 1
    if not 0 <= rank < tasks:
        raise NotFound(f"job {record.job} has no rank {rank}: it has {tasks} from 0")


def note(record: Job, outcome: Outcome) -> None:
    """Record what a node says of one rank."""
    if outcome.attempt != record.attempt or outcome.task >= len(record.ranks):
        return
    rank = record.ranks[outcome.task]
    if rank.state in ENDED:
        return
    match outcome.state:
        case "pending" | "unlaunched":
            rank.state = "cancelled"
        case said:
            rank.state = said
    rank.reason = outcome.reason
    if outcome.state in ENDED:
        rank.exit_code, rank.signal, rank.usage = outcome.exit_code, outcome.signal, outcome.usage


def lose(record: Job, node: str | None) -> None:
    """Record that the ranks of a node are lost, or all that have not ended if it is None."""
    for rank in record.ranks:
        if rank.state not in ENDED and node in (None, rank.decision.node):
            rank.state = "lost"


def judge(record: Job, effect: StateChanged, outcome: Outcome | None) -> None:
    """Record how the attempt will have ended, once the first reason for that is known."""
    if record.verdict:
        return
    if effect.reason == Reason.NOT_READY:
        record.verdict = "failed"
    elif effect.reason in _CALLED_OFF:
        record.verdict = "cancelled"
    elif outcome is not None:  # a task that its node gave back was called off
        record.verdict = "cancelled" if outcome.state in NOT_BEGUN else outcome.job_state
    else:
        record.verdict = "lost"


def ended(record: Job, effect: StateChanged, attempt: Attempt) -> Attempt:
    """Return the attempt of a gang as it ended, of which `attempt` knows only the last rank."""
    return msgspec.structs.replace(
        attempt,
        state=record.verdict or attempt.state,
        exit_code=effect.exit_code,
        signal=effect.signal,
        usage=usage(record),
        nodes=tuple(rank.decision.node for rank in record.ranks),
    )


def whose(record: Job, outcome: Outcome, text: str) -> str:
    """Return the reason of a rank's end with its number and node."""
    return f"rank {outcome.task} on node {record.ranks[outcome.task].decision.node}: {text}"


def lost_with(record: Job, effect: StateChanged, node: str, text: str) -> str:
    """Return the reason of a lost node with the ranks that it had."""
    if effect.reason not in _LOST:
        return text
    ranks = [number for number, rank in enumerate(record.ranks) if rank.decision.node == node]
    return f"{text} ({numbers(ranks)} on node {node})"


def not_ready(record: Job, ready: Iterable[int], text: str) -> str:
    """Return the reason of an attempt that was given up, with the ranks that were not ready."""
    known = set(ready)
    late = [number for number in range(len(record.ranks)) if number not in known]
    if not late:
        return text
    where = dict.fromkeys(record.ranks[number].decision.node for number in late)
    return f"{text} ({numbers(late)} on {', '.join(where)})"


def numbers(ranks: list[int]) -> str:
    """Return "rank 3", "ranks 1, 2" or "6 ranks from 0"."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) <= NAMED_MAX:
        return f"ranks {', '.join(map(str, ranks))}"
    if ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"{len(ranks)} ranks from {ranks[0]}"


def usage(record: Job) -> Usage | None:
    """Return what all ranks used together; None if no node said."""
    known = [rank.usage for rank in record.ranks if rank.usage is not None]
    if not known:
        return None
    return Usage(
        sum(each.cpu_ns for each in known),
        sum(each.memory_peak_bytes for each in known),
        sum(each.output_bytes for each in known),
        sum(each.output_dropped_bytes for each in known),
    )
