# SPDX-License-Identifier: Apache-2.0
"""The verdicts of the leader on ranks of this node that keep ranks of other nodes waiting.

Called in the daemon's loop. Invariant: a verdict holds while the leader repeats it, and is over
SILENT_S after its last word, so that no rule acts on what a leader said that is gone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.tracing.rank_notice import RankNotice
from stoker.agent.tracing.rank_watch import TroubledRank
from stoker.mesh.wire.queries import RanksQuery
from stoker.probes.collectives.rank_judge import RankTrouble
from stoker.scheduler.nouns import TaskKey, TroubleSample

SILENT_S = 10.0
TASKS_MAX = 1024
"""The most tasks whose verdicts are kept at a time."""


Troubles = dict[tuple[int, Literal["slow", "hung"]], TroubleSample]


class _Held(NamedTuple):
    """The verdicts on one task, and what ends them without another word."""

    troubles: Troubles
    ends: asyncio.TimerHandle


class GangVerdicts:
    """The leader's verdicts on the tasks of this node.

    `start` returns the record of a living attempt, `notice` takes each rank that begins or ceases
    to keep others waiting.
    """

    def __init__(
        self,
        start: Callable[[TaskKey], StartRecord | None],
        notice: Callable[[RankNotice], None],
    ) -> None:
        self._start, self._notice = start, notice
        self._held: dict[TaskKey, _Held] = {}

    def told(self, query: RanksQuery) -> bool:
        """Take in what holds of one task now; returns whether its attempt is here."""
        record = self._start(query.key)
        if record is None:
            return False
        before = self._let_go(query.key)
        now = {(each.rank, each.kind): each for each in query.troubles}
        if now and len(self._held) < TASKS_MAX:
            ends = asyncio.get_running_loop().call_later(SILENT_S, self._silent, query.key)
            self._held[query.key] = _Held(now, ends)
        else:
            now = {}
        self._differ(record, before, now)
        return True

    def _let_go(self, key: TaskKey) -> Troubles:
        held = self._held.pop(key, None)
        if held is None:
            return {}
        held.ends.cancel()
        return held.troubles

    def _silent(self, key: TaskKey) -> None:
        record, before = self._start(key), self._let_go(key)
        if record is not None:
            self._differ(record, before, {})

    def _differ(
        self,
        record: StartRecord,
        before: Troubles,
        now: Troubles,
    ) -> None:
        for name in before.keys() - now.keys():
            self._notice(_notice(record, before[name], over=True))
        for name in now.keys() - before.keys():
            self._notice(_notice(record, now[name], over=False))


def _notice(record: StartRecord, said: TroubleSample, *, over: bool) -> RankNotice:
    since_ns = time.monotonic_ns() - said.lasts_ns
    trouble = RankTrouble(said.kind, (said.rank,), "", said.text, said.longer, since_ns)
    return RankNotice(TroubledRank(0, said.rank, (), trouble, over), record, (record,))
