# SPDX-License-Identifier: Apache-2.0
"""The judgement of a running job's ranks: which one is slow, and which does not come.

Pure: rows of one job in, about once a second. Invariant: a rank is named as slow only if both
halves of the time looked at name it, and it stays named until it is well for a while, so nothing
flaps. A rank that waits for a CPU is not slow by itself, so that time does not count.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

from stoker.native.slow_rank import HUNG_NS, WELL_NS
from stoker.probes.collectives.collective_rows import Collectives, StuckRow, stuck_text
from stoker.probes.collectives.straggler import judged, straggler

S = 1_000_000_000
WINDOW_NS = 3 * S
"""The shortest time over which a rank is judged; it grows until there are enough operations."""
WINDOW_MAX_NS = 60 * S
KEPT_MAX = 128
PERIOD_NS = S
"""The time between two judgements, unless whoever makes them has no CPU."""

Kind = Literal["slow", "hung"]


class RankTrouble(msgspec.Struct, frozen=True):
    """Ranks that keep others waiting. `text` is a sentence, which changes while that goes on.

    `longer`: the part by which the own work of a slow one takes longer. Times are CLOCK_MONOTONIC
    ns: it is so at least `since_ns`, and was told at `named_ns`. The judgement came `lag_ns` later
    than it would have come with a CPU whenever one was due.
    """

    kind: Kind
    ranks: tuple[int, ...]
    communicator: str
    text: str
    longer: float | None = None
    since_ns: int = 0
    named_ns: int = 0
    lag_ns: int = 0

    @property
    def key(self) -> tuple[str, tuple[int, ...], str]:
        """The things that stay the same while it goes on."""
        return self.kind, self.ranks, self.communicator


class RankJudge:
    """The judgement of one job."""

    def __init__(self) -> None:
        self._kept: deque[Collectives] = deque(maxlen=KEPT_MAX)
        self._now: dict[tuple[str, tuple[int, ...], str], tuple[RankTrouble, int]] = {}
        """The troubles that go on, and when each was seen last."""
        self.resumed_ns = 0
        """The end of the last time in which the job was frozen."""
        self._late: deque[tuple[int, int]] = deque(maxlen=KEPT_MAX)
        """The time of each judgement, and by how much it was late."""

    @property
    def troubles(self) -> tuple[RankTrouble, ...]:
        """Return the troubles that go on; ranks that do not come stand first."""
        return tuple(sorted((each for each, _ in self._now.values()), key=lambda t: t.kind))

    def rest(self, at_ns: int) -> None:
        """Judge nothing that was before `at_ns`: the job was frozen."""
        self._kept.clear()
        self._late.clear()
        self.resumed_ns = at_ns

    def judge(
        self, now: Collectives, now_ns: int | None = None
    ) -> tuple[list[RankTrouble], list[RankTrouble]]:
        """Return the troubles that began and those that ended.

        `now_ns` is the time of this judgement; None: that of the rows.
        """
        self._note(now.at_ns if now_ns is None else now_ns)
        while self._kept and now.at_ns - self._kept[0].at_ns > WINDOW_MAX_NS:
            self._kept.popleft()
        seen = [self._hung(row, now) for row in now.stuck if self._is_hung(row, now.at_ns)]
        if not seen and (slow := self._slow(now)) is not None:
            seen.append(slow)
        self._kept.append(now)
        began = [each for each in seen if each.key not in self._now]
        for each in seen:
            self._now[each.key] = self._goes_on(each), now.at_ns
        ended = [
            each
            for each, at_ns in self._now.values()
            if now.at_ns - at_ns >= (WELL_NS if each.kind == "slow" else 1)
        ]
        for each in ended:
            del self._now[each.key]
        return began, ended

    def _note(self, now_ns: int) -> None:
        """Note by how much this judgement is late."""
        before_ns = self._late[-1][0] if self._late else now_ns
        self._late.append((now_ns, max(0, now_ns - before_ns - PERIOD_NS)))

    def _named(self, trouble: RankTrouble, since_ns: int, at_ns: int) -> RankTrouble:
        """Return a trouble with the time of this judgement and its lag."""
        now_ns = self._late[-1][0]
        lag_ns = now_ns - at_ns + sum(late for at, late in self._late if at >= since_ns)
        return msgspec.structs.replace(
            trouble, since_ns=since_ns, named_ns=now_ns, lag_ns=max(0, lag_ns)
        )

    def _goes_on(self, trouble: RankTrouble) -> RankTrouble:
        """Return a trouble with the times of its beginning, if it is not new."""
        before, _ = self._now.get(trouble.key, (trouble, 0))
        return msgspec.structs.replace(
            trouble, since_ns=before.since_ns, named_ns=before.named_ns, lag_ns=before.lag_ns
        )

    def _is_hung(self, row: StuckRow, at_ns: int) -> bool:
        since_ns = max(row.since_ns, self.resumed_ns)
        return bool(row.missing) and at_ns - since_ns >= HUNG_NS

    def _hung(self, row: StuckRow, now: Collectives) -> RankTrouble:
        missing = tuple(each.rank for each in row.missing)
        hung = RankTrouble("hung", missing, row.communicator, stuck_text(row, now.at_ns))
        return self._named(hung, max(row.since_ns, self.resumed_ns), now.at_ns)

    def _slow(self, now: Collectives) -> RankTrouble | None:
        """Return the rank that the whole window and both halves of it name."""
        window = self._window(now)
        if len(window) < 3:
            return None
        middle = window[len(window) // 2]
        whole = straggler(now, window[0])
        halves = straggler(now, middle, least=1), straggler(middle, window[0], least=1)
        if whole is None or any(half is None or half.rank != whole.rank for half in halves):
            return None
        slow = RankTrouble(
            "slow", (whole.rank,), whole.communicator, whole.text, longer=whole.longer
        )
        return self._named(slow, window[0].at_ns, now.at_ns)

    def _window(self, now: Collectives) -> list[Collectives]:
        """Return the newest rows that are old enough and have enough operations after them."""
        for place in range(len(self._kept) - 1, -1, -1):
            before = self._kept[place]
            if now.at_ns - before.at_ns >= WINDOW_NS and judged(now, before):
                return [*list(self._kept)[place:], now]
        return []
