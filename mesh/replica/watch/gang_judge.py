# SPDX-License-Identifier: Apache-2.0
"""The judgement of the ranks of one gang on several nodes: which one is slow, and which is missing.

Pure. Nodes tell about once a second what their ranks have done. Their clocks differ, so a rank is
judged by its own work for each operation, and waits come as ages. Invariant: nobody is judged
unless all ranks of a communicator are told of, and no rank by words older than FRESH_NS.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Literal, NamedTuple

from stoker.mesh.replica.gangs import numbers
from stoker.native.slow_rank import HUNG_NS, WELL_NS, Slow, slow_rank
from stoker.scheduler.nouns import CommunicatorSample, MemberSample

S = 1_000_000_000
PERIOD_NS = S
"""The time between two samples of one node, unless it has no CPU."""
FRESH_NS = 5 * S // 2
"""A sample that came longer ago says nothing of the present."""
FRAME_NS = S // 4
"""The shortest time between two judgements."""
WINDOW_NS = 5 * S // 2
"""The shortest time over which a rank is judged; it grows until there are enough operations."""
WINDOW_MAX_NS = 60 * S
OPERATIONS = 32
"""Fewer operations say nothing: samples of two nodes may be one operation apart."""
PRESENT_NS = 2 * S
"""A rank is missing only if its node has said so this long after others began to wait."""
FRAMES_MAX = 256
COMMUNICATORS_MAX = 8
"""The most communicators of one gang that are judged."""

Kind = Literal["slow", "hung"]


class RankVerdict(NamedTuple):
    """A rank that keeps others waiting. Times are those of the judge's clock, in ns."""

    rank: int
    kind: Kind
    text: str
    task: int
    node: str
    longer: float | None
    since_ns: int
    named_ns: int
    lag_ns: int


class _Heard(NamedTuple):
    """The words of a node about a rank, and when they came."""

    said: MemberSample
    node: str
    at_ns: int


Members = dict[int, _Heard]


class _Frame(NamedTuple):
    at_ns: int
    members: Members


class _Communicator:
    """The newest words of each node, and what all said at earlier times."""

    def __init__(self) -> None:
        self.heard: dict[str, tuple[CommunicatorSample, int]] = {}
        self.frames: deque[_Frame] = deque(maxlen=FRAMES_MAX)


class GangJudge:
    """The judgement of one gang."""

    def __init__(self) -> None:
        self._communicators: dict[int, _Communicator] = {}
        self._late: dict[str, deque[tuple[int, int]]] = {}
        """The times at which each node spoke, and by how much each was late."""
        self._now: dict[tuple[Kind, int, int], tuple[RankVerdict, int]] = {}
        """The verdicts that hold, by kind, rank and communicator, and when each was made last."""
        self._judged_ns = -FRAME_NS

    def take(self, node: str, rows: tuple[CommunicatorSample, ...], at_ns: int) -> None:
        """Take in what a node says of its ranks now."""
        late = self._late.setdefault(node, deque(maxlen=FRAMES_MAX))
        before_ns = late[-1][0] if late else at_ns
        late.append((at_ns, max(0, at_ns - before_ns - PERIOD_NS)))
        for row in rows:
            if row.key in self._communicators or len(self._communicators) < COMMUNICATORS_MAX:
                of = self._communicators.setdefault(row.key, _Communicator())
                of.heard[node] = row, at_ns

    def judge(self, now_ns: int) -> tuple[RankVerdict, ...]:
        """Return the verdicts that hold now; ranks that do not come stand first."""
        if now_ns - self._judged_ns >= FRAME_NS:
            self._judged_ns = now_ns
            for key, of in list(self._communicators.items()):
                self._look(key, of, now_ns)
        return tuple(sorted((each for each, _ in self._now.values()), key=_order))

    def _look(self, key: int, of: _Communicator, now_ns: int) -> None:
        of.heard = {node: (r, at) for node, (r, at) in of.heard.items() if now_ns - at < FRESH_NS}
        found: list[RankVerdict] = []
        if (members := _members(of)) is not None:
            while of.frames and now_ns - of.frames[0].at_ns > WINDOW_MAX_NS:
                of.frames.popleft()
            found = list(self._hung(of, members, now_ns))
            of.frames.append(_Frame(now_ns, members))
            if not found and (slow := self._slow(of.frames)) is not None:
                found.append(slow)
        else:
            of.frames.clear()
        if not of.heard:
            del self._communicators[key]
        self._settle(key, found, now_ns)

    def _settle(self, key: int, found: list[RankVerdict], now_ns: int) -> None:
        """Keep the first times of what goes on, and end what does not."""
        for each in found:
            name = each.kind, each.rank, key
            before = self._now.get(name, (each, 0))[0]
            since = before.since_ns, before.named_ns, before.lag_ns
            self._now[name] = (
                each._replace(since_ns=since[0], named_ns=since[1], lag_ns=since[2]),
                now_ns,
            )
        for name, (each, at_ns) in list(self._now.items()):
            patience_ns = WELL_NS if each.kind == "slow" else 1
            if name[2] == key and now_ns - at_ns >= patience_ns:
                del self._now[name]

    def _verdict(
        self, heard: _Heard, kind: Kind, text: str, since_ns: int, now_ns: int
    ) -> RankVerdict:
        return RankVerdict(
            heard.said.rank, kind, text, heard.said.task, heard.node, None, since_ns, now_ns,
            self._lag(since_ns),
        )  # fmt: skip

    def _lag(self, since_ns: int) -> int:
        """Return how late the words of the slowest node were since then."""
        sums = (sum(late for at, late in each if at >= since_ns) for each in self._late.values())
        return max(sums, default=0)

    # --- a rank that does not come ----------------------------------------------------------------

    def _hung(self, of: _Communicator, members: Members, now_ns: int) -> Iterator[RankVerdict]:
        waits = {
            rank: heard.at_ns - heard.said.waits_ns
            for rank, heard in members.items()
            if heard.said.waits_ns is not None
        }
        counted = all(heard.said.from_start for heard in members.values())
        newest = max((members[rank].said.entered for rank in waits), default=0)
        if counted:
            waits = {r: ns for r, ns in waits.items() if members[r].said.entered == newest}
        missing = [
            rank
            for rank, heard in sorted(members.items())
            if (heard.said.entered < newest if counted else heard.said.waits_ns is None)
        ]
        since_ns = min(waits.values(), default=now_ns)
        if not missing or now_ns - since_ns < HUNG_NS:
            return
        if any(members[rank].at_ns - since_ns < PRESENT_NS for rank in missing):
            return
        call = next(row.call for row, _ in of.heard.values() if row.call)
        number = f" #{newest}" if counted else ""
        verb = "wait" if len(waits) > 1 else "waits"
        text = (
            f"{call.partition('.')[2] or call}{number}: {numbers(sorted(waits))} {verb}"
            f" since {(now_ns - since_ns) / S:.1f} s for {numbers(missing)}"
        )
        for rank in missing:
            yield self._verdict(members[rank], "hung", text, since_ns, now_ns)

    # --- a rank that is slow ----------------------------------------------------------------------

    def _slow(self, frames: deque[_Frame]) -> RankVerdict | None:
        """Return the rank that the whole window and both halves of it name."""
        window = _window(list(frames))
        if len(window) < 3:
            return None
        first, middle, now = window[0], window[len(window) // 2], window[-1]
        whole = _slower(first, now)
        if whole is None or any(
            half is None or half.rank != whole.rank
            for half in (_slower(first, middle), _slower(middle, now))
        ):
            return None
        heard = now.members[whole.rank]
        operations = heard.said.entered - first.members[whole.rank].said.entered
        text = (
            f"rank {whole.rank} of {len(now.members)}: in {operations} operations its own work"
            f" took {whole.longer * 100:.0f} % longer"
        )
        found = self._verdict(heard, "slow", text, first.at_ns, now.at_ns)
        return found._replace(longer=whole.longer)


def _order(verdict: RankVerdict) -> tuple[Kind, int, str]:
    return verdict.kind, verdict.rank, verdict.text


def _members(of: _Communicator) -> Members | None:
    """Return all ranks of a communicator; None if some are not told of."""
    members: Members = {}
    size = 0
    for node, (row, at_ns) in of.heard.items():
        size = max(size, row.size)
        members |= {each.rank: _Heard(each, node, at_ns) for each in row.members}
    return members if len(of.heard) > 1 and len(members) == size else None


def _window(frames: list[_Frame]) -> list[_Frame]:
    """Return the newest frames that are old enough and have enough operations after them."""
    now = frames[-1]
    for place in range(len(frames) - 2, -1, -1):
        before = frames[place]
        if now.at_ns - before.at_ns >= WINDOW_NS and _operations(before, now) >= OPERATIONS:
            return frames[place:]
    return []


def _operations(before: _Frame, now: _Frame) -> int:
    """Return how many operations each rank has entered at least."""
    if before.members.keys() != now.members.keys():
        return 0
    return min(
        heard.said.entered - before.members[rank].said.entered
        for rank, heard in now.members.items()
    )


def _slower(before: _Frame, now: _Frame) -> Slow | None:
    """Return the slow rank by the own work of all for each operation."""
    own: dict[int, float] = {}
    with_cpu: dict[int, float] = {}
    for rank, heard in now.members.items():
        was = before.members[rank]
        operations = heard.said.entered - was.said.entered
        passed_ns = heard.at_ns - was.at_ns - (heard.said.queued_ns - was.said.queued_ns)
        if operations <= 0 or heard.said.own_ns < was.said.own_ns:
            return None
        own[rank] = (heard.said.own_ns - was.said.own_ns) / operations
        with_cpu[rank] = passed_ns / operations
    return slow_rank(own, with_cpu)
