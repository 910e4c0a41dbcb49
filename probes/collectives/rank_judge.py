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

from stoker.probes.collectives.collective_rows import Collectives, StuckRow, stuck_text
from stoker.probes.collectives.straggler import LEAST_OPERATIONS, straggler

S = 1_000_000_000
WINDOW_NS = 3 * S
"""The shortest time over which a rank is judged; it grows until there are enough operations."""
WINDOW_MAX_NS = 60 * S
KEPT_MAX = 128
HUNG_NS = 3 * S
"""A rank that does not come while others wait for this time is named."""
WELL_NS = 5 * S
"""The time without cause after which a rank is named no more."""

Kind = Literal["slow", "hung"]


class RankTrouble(msgspec.Struct, frozen=True):
    """Ranks that keep others waiting. `text` is a sentence, which changes while that goes on."""

    kind: Kind
    ranks: tuple[int, ...]
    communicator: str
    text: str

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
        self._resumed_ns = 0

    @property
    def troubles(self) -> tuple[RankTrouble, ...]:
        """The troubles that go on; ranks that do not come stand first."""
        return tuple(sorted((each for each, _ in self._now.values()), key=lambda t: t.kind))

    def rest(self, at_ns: int) -> None:
        """Judge nothing that was before `at_ns`: the job was frozen."""
        self._kept.clear()
        self._resumed_ns = at_ns

    def judge(self, now: Collectives) -> tuple[list[RankTrouble], list[RankTrouble]]:
        """Return the troubles that began and those that ended."""
        while self._kept and now.at_ns - self._kept[0].at_ns > WINDOW_MAX_NS:
            self._kept.popleft()
        seen = [_hung(row, now.at_ns) for row in now.stuck if self._is_hung(row, now.at_ns)]
        if not seen and (slow := self._slow(now)) is not None:
            seen.append(slow)
        self._kept.append(now)
        began = [each for each in seen if each.key not in self._now]
        for each in seen:
            self._now[each.key] = each, now.at_ns
        ended = [
            each
            for each, at_ns in self._now.values()
            if now.at_ns - at_ns >= (WELL_NS if each.kind == "slow" else 1)
        ]
        for each in ended:
            del self._now[each.key]
        return began, ended

    def _is_hung(self, row: StuckRow, at_ns: int) -> bool:
        since_ns = max(row.since_ns, self._resumed_ns)
        return bool(row.missing) and at_ns - since_ns >= HUNG_NS

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
        return RankTrouble("slow", (whole.rank,), whole.communicator, whole.text)

    def _window(self, now: Collectives) -> list[Collectives]:
        """Return the newest rows that are old enough and have enough operations after them."""
        for place in range(len(self._kept) - 1, -1, -1):
            before = self._kept[place]
            if now.at_ns - before.at_ns >= WINDOW_NS and _operations(now, before):
                return [*list(self._kept)[place:], now]
        return []


def _operations(now: Collectives, before: Collectives) -> bool:
    earlier = {row.name: row.operations for row in before.communicators}
    return any(
        row.operations - earlier.get(row.name, 0) >= LEAST_OPERATIONS for row in now.communicators
    )


def _hung(row: StuckRow, now_ns: int) -> RankTrouble:
    missing = tuple(each.rank for each in row.missing)
    return RankTrouble("hung", missing, row.communicator, stuck_text(row, now_ns))
