# SPDX-License-Identifier: Apache-2.0
"""The watch of alerts: it reads the node's series, lets the judge decide, keeps and tells changes.

The daemon runs it only if config.toml has a rule. Invariant: a change is on disk before anyone is
told, so that the next agent tells it no second time; a disk that takes nothing is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from stoker.agent.alerts import alert_files, sinks
from stoker.agent.alerts.alert import AlertEvent
from stoker.agent.alerts.alert_files import AlertStatus, RuleStatus
from stoker.agent.alerts.judge import AlertBook, AlertJudge, Changed, JudgeTime
from stoker.agent.alerts.rule import AlertRule, AlertSettings
from stoker.agent.alerts.sink_queue import SinkQueue
from stoker.agent.export import node_metrics
from stoker.agent.export.node_metrics import NodeReading
from stoker.native.structured_log import structlog
from stoker.scheduler.nouns import AlertCounts

_log = structlog.get_logger("alerts")


class AlertPlaces(msgspec.Struct, frozen=True):
    """The places where a watch keeps what it knows."""

    node: str
    agent: Path
    """The agent's part of the state folder."""
    run: Path


class AlertWatch:
    """The alerts of one node. `read` returns its values; `publish` sends a change on the bus."""

    def __init__(
        self,
        places: AlertPlaces,
        rules: Sequence[AlertRule],
        settings: AlertSettings,
        *,
        read: Callable[[], Awaitable[NodeReading]],
        publish: Callable[[bytes], bool],
        queues: Sequence[SinkQueue] = (),
    ) -> None:
        self._places, self._rules, self._settings = places, tuple(rules), settings
        self._read, self._publish, self._queues = read, publish, tuple(queues)
        self._metrics = frozenset(rule.metric for rule in rules)
        self._own: Counter[str] = Counter(alert_bus_lost=0)
        self._judge = AlertJudge(self._rules, self._kept(), _now())
        self._hurried = asyncio.Event()

    @property
    def counters(self) -> Mapping[str, int]:
        """The counters of judge and sinks."""
        found = Counter(self._own)
        found.update(self._judge.counters)
        for queue in self._queues:
            found.update(queue.counters)
        return found

    async def run(self) -> None:
        """Judge at each interval, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            self._hurried.clear()
            await self.once()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(began + self._settings.interval_s - loop.time()):
                    await self._hurried.wait()

    def hurry(self) -> None:
        """Judge soon, because somebody has acknowledged an alert."""
        self._hurried.set()

    def counts(self) -> AlertCounts:
        """Return how many alerts there are now."""
        book = self._judge.book
        unseen = sum(alert.acknowledged is None for alert in book.firing)
        return AlertCounts(len(book.firing), unseen, len(book.history))

    async def once(self) -> None:
        """Read and judge now; tell what changed."""
        reading = await self._read()
        points = await asyncio.to_thread(node_metrics.series, reading, self._metrics)
        now = _now()
        changes = self._judge.judge(points, now)
        changes += self._judge.acknowledge(alert_files.read_acknowledged(self._places.agent))
        if changes:
            self._store()
            for change in changes:
                self._tell(change, now)
        alert_files.write_status(self._places.run, self._status(now))

    def close(self) -> None:
        """End the sinks."""
        for queue in self._queues:
            queue.close()

    def _kept(self) -> AlertBook:
        try:
            return alert_files.read_book(self._places.agent)
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("the book of alerts cannot be read: it begins anew", error=str(error))
            return AlertBook()

    def _store(self) -> None:
        try:
            alert_files.write_book(self._places.agent, self._judge.book)
        except OSError as error:
            self._own["alert_store_failed"] += 1
            _log.warning("alerts are not on disk", error=str(error))

    def _tell(self, changed: Changed, now: JudgeTime) -> None:
        change, alert = changed
        _log.info("alert", change=change, id=alert.id, rule=alert.rule, why=alert.reason)
        event = AlertEvent(self._places.node, now.real_ns, change, alert)
        if not self._publish(json.dumps(sinks.body(event)).encode()):
            self._own["alert_bus_lost"] += 1
        for queue in self._queues:
            queue.put(event)

    def _status(self, now: JudgeTime) -> AlertStatus:
        matched = self._judge.matched
        rules = tuple(
            RuleStatus(rule.name, rule.metric, matched.get(rule.name, 0)) for rule in self._rules
        )
        return AlertStatus(
            now.real_ns,
            self._settings.interval_s,
            self._judge.book,
            rules,
            dict(self.counters),
        )


def _now() -> JudgeTime:
    return JudgeTime(time.time_ns(), time.monotonic_ns())
