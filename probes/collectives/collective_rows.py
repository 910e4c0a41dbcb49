# SPDX-License-Identifier: Apache-2.0
"""The rows that tell who waited for whom in a job, and what does not go on; plain values.

Times are CLOCK_MONOTONIC ns of the job's node. Ranks are those of the launcher.
"""

from __future__ import annotations

import msgspec


class RankRow(msgspec.Struct, frozen=True):
    """One rank. `wait_ns` is what it waited for others, messages (`message_ns`) included, in calls
    that took `inside_ns`; `caused_ns` is what others waited for it, added up. It was seen from
    `seen_ns` to `until_ns`."""

    rank: int
    pid: int
    ended: bool
    calls: int
    inside_ns: int
    wait_ns: int
    message_ns: int
    last: int
    """The operations into which it came last."""
    caused_ns: int
    seen_ns: int
    until_ns: int
    queued_ns: int = 0
    """The time between its calls in which its thread waited for a CPU."""
    own_ns: int = 0
    """The rest of the time between its calls, and what its device took for itself."""
    messages: int = 0
    """Its calls that waited for a message."""


class MemberRow(msgspec.Struct, frozen=True):
    """One rank in one communicator."""

    rank: int
    last: int
    caused_ns: int
    wait_ns: int


class CommunicatorRow(msgspec.Struct, frozen=True):
    """One communicator. `operations`: those of which the calls of all members were matched;
    `aligned` is False until it is known which calls belong together, and nothing counts before."""

    name: str
    size: int
    aligned: bool
    operations: int
    wait_ns: int
    members: tuple[MemberRow, ...]


MESSAGES = "messages"
"""The name of the row of all ranks by the messages that they wait for; no communicator has it."""
LEAST_EXCHANGING = 3
"""The ranks without which nothing follows from messages: of two that exchange them, one may give
the other its work."""


def exchange(ranks: tuple[RankRow, ...]) -> CommunicatorRow | None:
    """Return the ranks that wait for messages as one row, in which `operations` is the smallest
    number of such calls of a rank; None if they are too few. Who sends is not known, so none of
    them came last."""
    among = tuple(rank for rank in ranks if rank.messages)
    if len(among) < LEAST_EXCHANGING:
        return None
    members = tuple(MemberRow(each.rank, 0, 0, each.message_ns) for each in among)
    waited_ns = sum(each.wait_ns for each in members)
    count = min(each.messages for each in among)
    return CommunicatorRow(MESSAGES, len(members), True, count, waited_ns, members)


class OperationRow(msgspec.Struct, frozen=True):
    """The matched operations of one function."""

    name: str
    count: int
    wait_ns: int


class MissingRow(msgspec.Struct, frozen=True):
    """A rank that has not come. `doing`: the call that it is in, if it is in one that is seen."""

    rank: int
    doing: str = ""
    since_ns: int = 0


class StuckRow(msgspec.Struct, frozen=True):
    """An operation that does not go on: `waiting` ranks are in it, `missing` ones have not come.
    With none missing all are in it and none comes out."""

    communicator: str
    name: str
    number: int
    since_ns: int
    waiting: tuple[int, ...]
    missing: tuple[MissingRow, ...]


class Collectives(msgspec.Struct, frozen=True):
    """All that is known of a job's ranks at `at_ns`."""

    at_ns: int
    ranks: tuple[RankRow, ...]
    communicators: tuple[CommunicatorRow, ...]
    operations: tuple[OperationRow, ...]
    stuck: tuple[StuckRow, ...] = ()
    loss: dict[str, int] = {}
    said: tuple[str, ...] = ()
    """Sentences for people: the first things to know."""
    unnamed: str = ""
    """The conditions by which no rank is named as slow; empty if one is."""
    trouble: str = ""
    """The worst of what is wrong at present; empty if nothing is."""


PRESENT = "at present: "
"""The beginning of a sentence that is true only while the job runs."""


def at_the_end(rows: Collectives) -> Collectives:
    """Return the rows without what was so only while the job ran."""
    said = tuple(each for each in rows.said if not each.startswith(PRESENT))
    return msgspec.structs.replace(rows, said=said, trouble="")


def ranks_text(ranks: tuple[int, ...]) -> str:
    """Return ranks for people: `rank 3`, `ranks 0-2,5`."""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and parts[-1][1] == rank - 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    words = ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)
    return f"rank{'s' if len(ranks) > 1 else ''} {words}"


def stuck_text(row: StuckRow, now_ns: int) -> str:
    """Return one sentence: `MPI_Allreduce #1042: ranks 0-2 wait since 6.2 s for rank 3`."""
    since = f"{max(0, now_ns - row.since_ns) / 1e9:.1f} s"
    function = row.name.partition(".")[2] or row.name
    head = f"{function} #{row.number}: {ranks_text(row.waiting)}"
    if not row.missing:
        return f"{head} are all in it since {since} and none comes out"
    missing = tuple(each.rank for each in row.missing)
    verb = "wait" if len(row.waiting) > 1 else "waits"
    doing = ", ".join(
        f"rank {each.rank} is in {each.doing.partition('.')[2] or each.doing}"
        for each in row.missing
        if each.doing
    )
    return f"{head} {verb} since {since} for {ranks_text(missing)}{f' ({doing})' if doing else ''}"
