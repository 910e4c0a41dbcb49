# SPDX-License-Identifier: Apache-2.0
"""Ranks that keep others waiting, while jobs run: told at once, and acted on by their job's rule.

Called in the daemon's loop. Invariant: a rule acts once on an attempt, only after the job's own
patience, and only while the attempt and its trouble are there.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, Protocol

from stoker.agent.jobs import steps
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.jobs.steps import Event
from stoker.agent.tracing.rank_notice import RankNotice
from stoker.agent.tracing.trace_thread import TraceThread
from stoker.native.slow_rank import HUNG_NS
from stoker.native.structured_log import structlog
from stoker.probes.collectives.rank_judge import RankTrouble
from stoker.scheduler.nouns import TaskKey

WAITING_MAX = 1024
"""The most troubles whose patience runs at a time."""
NO_CORDON = "this node keeps no jobs off a device for a rank ([node] rank_cordon in config.toml)"

_log = structlog.get_logger("ranks")


class Accuse(Protocol):
    """Tells the health watch of a rank on a device."""

    def __call__(self, device: str, text: str, *, cordon: bool) -> None: ...


class RankAct(NamedTuple):
    """The consequence for a rank. `ends`: the attempt ends, so that another one may begin; the
    devices get a warning, which placements avoid, or with `cordon` no more jobs."""

    ends: bool
    cordon: bool
    reason: str


class RankRule(NamedTuple):
    """The node's part of the rule. `cordon`: its jobs may keep others off a device."""

    cordon: bool = False

    def act(self, notice: RankNotice) -> RankAct:
        """Return what the job's rule does about a rank once its patience is over. Pure."""
        start = _about(notice)
        rule = start.rank_trouble if start is not None else "none"
        where = f" on device {', '.join(notice.devices)}" if notice.devices else ""
        reason = f"rank {notice.found.rank}{where}: {notice.found.trouble.text}"
        refused = rule == "cordon" and not self.cordon
        cordon = rule == "cordon" and self.cordon
        return RankAct(
            rule in ("restart", "cordon"), cordon, f"{reason}; {NO_CORDON}" if refused else reason
        )


def _about(notice: RankNotice) -> StartRecord | None:
    """Return the start of the rank's task, or any of its gang on this node."""
    return notice.home or next(iter(notice.starts), None)


def _lasts_ns(trouble: RankTrouble) -> int:
    """Return for how long it is so by now. A wait is as long as it is, however late it was told; a
    slow rank is told after about HUNG_NS, or after as long as a few operations take."""
    if trouble.kind == "slow" or not trouble.since_ns:
        return HUNG_NS
    return max(HUNG_NS, time.monotonic_ns() - trouble.since_ns)


class NodeRanks:
    """The troubled ranks of one node."""

    def __init__(
        self,
        tracer: TraceThread,
        rule: RankRule,
        *,
        lives: Callable[[TaskKey], bool],
        accuse: Accuse,
        post: Callable[[Event], None],
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._rule, self._lives, self._accuse, self._post = rule, lives, accuse, post
        self._waiting: dict[tuple[TaskKey, int, str], asyncio.TimerHandle] = {}
        tracer.ranks = self.notice

    def notice(self, notice: RankNotice) -> None:
        """Take in a rank that began or ceased to keep others waiting."""
        start, found = _about(notice), notice.found
        if start is None or start.rank_trouble == "none":
            return
        self._tell(start, notice)
        key = (start.key, found.rank, found.trouble.kind)
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting.cancel()
        if found.over or start.rank_trouble == "warn":
            return
        if len(self._waiting) >= WAITING_MAX:
            self.counters["ranks_refused"] += 1
            return
        left_s = max(0.0, start.rank_patience_s - _lasts_ns(found.trouble) / 1e9)
        later = asyncio.get_running_loop().call_later
        self._waiting[key] = later(left_s, self._act, key, notice)

    def _tell(self, start: StartRecord, notice: RankNotice) -> None:
        found = notice.found
        self.counters["ranks_well" if found.over else f"ranks_{found.trouble.kind}"] += 1
        _log.warning(
            "a rank keeps others waiting" + (" no more" if found.over else ""),
            job=start.job,
            attempt=start.attempt,
            rank=found.rank,
            devices=notice.devices,
            trouble=found.trouble.kind,
            why=found.trouble.text,
        )

    def _act(self, key: tuple[TaskKey, int, str], notice: RankNotice) -> None:
        """End the attempt and mark the devices of the rank, by the job's rule."""
        del self._waiting[key]
        start, act = key[0], self._rule.act(notice)
        if not act.ends or not self._lives(start):
            return
        self.counters["ranks_acted"] += 1
        self._post(steps.Faulted((start,), act.reason, time.time_ns()))
        for device in notice.devices:
            self._accuse(device, act.reason, cordon=act.cordon)
