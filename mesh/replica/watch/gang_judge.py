# SPDX-License-Identifier: Apache-2.0
"""The judgement of the ranks of one gang on several nodes: which one is slow, and which is missing.

Pure. Nodes tell about once a second what their ranks have done. Their clocks differ, so a rank is
judged by its own work for each operation, and waits come as ages. Invariants: nobody is judged
unless all ranks of a communicator are told of; and a judgement depends on when words were true, and
not on when they came, so that busy CPUs make it late and not wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Literal, NamedTuple

from stoker.mesh.replica.gangs import numbers
from stoker.mesh.replica.watch.rank_waits import Heard, Members, Stuck, held_ranks, stuck_of
from stoker.mesh.replica.watch.speaker import PERIOD_NS, Speaker
from stoker.native.slow_rank import HUNG_NS, WELL_NS, Slow, slow_rank
from stoker.scheduler.nouns import CommunicatorSample, MemberSample

S = 1_000_000_000
SILENT_NS = 10 * S
"""The words of a node hold for this time, unless it says something else."""
FRESH_NS = 5 * S // 2
"""Ranks are compared with each other by words of times that are no further apart."""
FRAME_NS = S // 4
"""The shortest time between two judgements of a gang on more nodes than FEW_NODES, which speak more
often than that."""
FEW_NODES = PERIOD_NS // FRAME_NS
WINDOW_NS = 5 * S // 2
"""The shortest time over which a rank is judged; it grows until there are enough operations."""
WINDOW_MAX_NS = 60 * S
OPERATIONS = 32
"""Fewer operations say nothing: samples of two nodes may be one operation apart."""
PRESENT_NS = 2 * S
"""A rank is missing only if its node has said so this long after others began to wait, and as long
after it was frozen."""
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


class _Frame(NamedTuple):
    at_ns: int
    members: Members


class _Words(NamedTuple):
    """The newest words of a node about a communicator, when they were true and when they came, and
    until when its ranks could do nothing."""

    row: CommunicatorSample
    at_ns: int
    came_ns: int
    frozen_ns: int


class _Communicator:
    """The newest words of each node, and what all said at earlier times."""

    def __init__(self) -> None:
        self.heard: dict[str, _Words] = {}
        self.frames: dict[int, deque[_Frame]] = {}
        """Each part of those that one call has made has frames of its own."""

    def forget(self, now_ns: int) -> None:
        """Forget the words of nodes that have become silent."""
        self.heard = {
            node: words for node, words in self.heard.items() if now_ns - words.came_ns < SILENT_NS
        }


class GangJudge:
    """The judgement of one gang."""

    def __init__(self) -> None:
        self._communicators: dict[int, _Communicator] = {}
        self._speakers: dict[str, Speaker] = {}
        self._now: dict[tuple[Kind, int, int], tuple[RankVerdict, int]] = {}
        """The verdicts that hold, by kind, rank and communicator, and when each was made last."""
        self._judged_ns = -FRAME_NS

    def take(
        self,
        node: str,
        rows: tuple[CommunicatorSample, ...],
        came_ns: int,
        told_ns: int = 0,
        resumed_ns: int = 0,
    ) -> None:
        """Take in what a node says of its ranks. `told_ns`: its own clock when that was so, words
        of the same time are no news; `resumed_ns`: when its ranks were frozen last."""
        speaker = self._speakers.setdefault(node, Speaker())
        if not speaker.is_new(told_ns):
            return
        at_ns = speaker.spoke(told_ns, came_ns)
        frozen_ns = speaker.here(resumed_ns) if resumed_ns else 0
        for row in rows:
            if row.key in self._communicators or len(self._communicators) < COMMUNICATORS_MAX:
                of = self._communicators.setdefault(row.key, _Communicator())
                of.heard[node] = _Words(row, at_ns, came_ns, frozen_ns)

    def judge(self, now_ns: int) -> tuple[RankVerdict, ...]:
        """Return the verdicts that hold now; ranks that do not come stand first."""
        if len(self._speakers) <= FEW_NODES or now_ns - self._judged_ns >= FRAME_NS:
            self._judged_ns = now_ns
            self._look(now_ns)
        # A rank may be known by several communicators, and is one trouble.
        found = {(each.kind, each.rank): each for each, _ in self._now.values()}
        return tuple(sorted(found.values(), key=_order))

    def _look(self, now_ns: int) -> None:
        whole: dict[int, dict[int, Members]] = {}
        for key, of in list(self._communicators.items()):
            of.forget(now_ns)
            whole[key] = _parts(of)
            if not of.heard:
                del self._communicators[key]
        stuck = {
            (key, part): stuck_of(members)
            for key, parts in whole.items()
            for part, members in parts.items()
        }
        held = held_ranks(stuck.values())
        for key, parts in whole.items():
            found = []
            for part, members in parts.items():
                of = self._communicators[key]
                hung = list(self._hung(of, members, stuck[key, part], held, now_ns))
                frames = of.frames.setdefault(part, deque(maxlen=FRAMES_MAX))
                found += hung
                if _add_frame(frames, members) and not hung:
                    found += self._slow(frames, now_ns)
            self._settle(key, found, now_ns)

    def _settle(self, key: int, found: list[RankVerdict], now_ns: int) -> None:
        """Keep the first times of what goes on, and end what does not."""
        for each in found:
            name = each.kind, each.rank, key
            before = self._now.get(name, (each, 0))[0]
            # Later words may tell better when it began: that time was not known for want of words.
            earlier_ns = max(0, before.since_ns - each.since_ns)
            goes_on = each._replace(
                since_ns=before.since_ns - earlier_ns,
                named_ns=before.named_ns,
                lag_ns=before.lag_ns + earlier_ns,
            )
            self._now[name] = goes_on, now_ns
        for name, (each, at_ns) in list(self._now.items()):
            patience_ns = WELL_NS if each.kind == "slow" else 1
            if name[2] == key and now_ns - at_ns >= patience_ns:
                del self._now[name]

    def _verdict(
        self, heard: Heard, kind: Kind, text: str, since_ns: int, now_ns: int
    ) -> RankVerdict:
        return RankVerdict(
            heard.said.rank, kind, text, heard.said.task, heard.node, None, since_ns, now_ns,
            self._lag(since_ns, now_ns),
        )  # fmt: skip

    def _lag(self, since_ns: int, now_ns: int) -> int:
        """Return how late the words of the slowest node were since then."""
        lags = (each.lag_ns(since_ns, now_ns) for each in self._speakers.values())
        return max(lags, default=0)

    # --- a rank that does not come ----------------------------------------------------------------

    def _hung(
        self, of: _Communicator, members: Members, stuck: Stuck, held: set[int], now_ns: int
    ) -> Iterator[RankVerdict]:
        missing = [rank for rank in stuck.missing if rank not in held]
        if not missing or stuck.longest_ns < HUNG_NS:
            return
        could_ns = {rank: max(stuck.since_ns, members[rank].frozen_ns) for rank in missing}
        if any(members[rank].at_ns - could_ns[rank] < PRESENT_NS for rank in missing):
            return
        call = next(words.row.call for words in of.heard.values() if words.row.call)
        number = f" #{stuck.number}" if stuck.number else ""
        verb = "wait" if len(stuck.waits) > 1 else "waits"
        text = (
            f"{call.partition('.')[2] or call}{number}: {numbers(sorted(stuck.waits))} {verb}"
            f" since {(now_ns - stuck.since_ns) / S:.1f} s for {numbers(missing)}"
        )
        for rank in missing:
            yield self._verdict(members[rank], "hung", text, stuck.since_ns, now_ns)

    # --- a rank that is slow ----------------------------------------------------------------------

    def _slow(self, frames: deque[_Frame], now_ns: int) -> Iterator[RankVerdict]:
        """Yield the rank that the whole window and both halves of it name."""
        window = _window(list(frames))
        if len(window) < 3:
            return
        first, middle, now = window[0], window[len(window) // 2], window[-1]
        whole = _slower(first, now)
        if whole is None or any(
            half is None or half.rank != whole.rank
            for half in (_slower(first, middle), _slower(middle, now))
        ):
            return
        heard = now.members[whole.rank]
        operations = heard.said.entered - first.members[whole.rank].said.entered
        text = (
            f"rank {whole.rank} of {_name(now.members)}: in {operations} operations its own work"
            f" took {whole.longer * 100:.0f} % longer"
        )
        found = self._verdict(heard, "slow", text, first.at_ns, now_ns)
        yield found._replace(longer=whole.longer)


def _order(verdict: RankVerdict) -> tuple[Kind, int, str]:
    return verdict.kind, verdict.rank, verdict.text


def _parts(of: _Communicator) -> dict[int, Members]:
    """Return all ranks of a communicator by the part that each is in, and forget what was before if
    some are not told of: then none."""
    members: Members = {}
    size = 0
    for node, words in of.heard.items():
        size = max(size, words.row.size)
        members |= {each.rank: _heard(each, node, words) for each in words.row.members}
    if len(of.heard) < 2 or len(members) != size:
        of.frames.clear()
        return {}
    parts: dict[int, Members] = {}
    for rank, heard in members.items():
        parts.setdefault(heard.said.part, {})[rank] = heard
    return parts


def _heard(said: MemberSample, node: str, words: _Words) -> Heard:
    return Heard(said, node, words.at_ns, words.frozen_ns)


def _name(members: Members) -> str:
    """Return how many ranks these are, or which, if they are not those from 0 on."""
    ranks = sorted(members)
    return str(len(ranks)) if ranks == list(range(len(ranks))) else numbers(ranks)


def _add_frame(frames: deque[_Frame], members: Members) -> bool:
    """Add what all say now if they speak of one time; return whether they do."""
    times = [heard.at_ns for heard in members.values()]
    if max(times) - min(times) >= FRESH_NS:
        return False
    while frames and max(times) - frames[0].at_ns > WINDOW_MAX_NS:
        frames.popleft()
    frames.append(_Frame(max(times), members))
    return True


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
