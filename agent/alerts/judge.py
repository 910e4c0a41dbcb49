# SPDX-License-Identifier: Apache-2.0
"""The judge of alerts: series and a time go in, changes of alerts come out.

Pure. A value beyond its threshold makes a series pending; after `for_s` its alert fires. It is
resolved once the value has been within `clear` for `clear_for_s`, so a value that swings around the
threshold is one alert. Invariants: an alert fires once before it is resolved; a value that is
absent neither fires nor clears, and an alert whose series is gone for GONE_S says so and ends;
what does not fit is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from stoker.agent.alerts.alert import Acknowledgement, Alert, Change, Series
from stoker.agent.alerts.rule import AlertRule, unit

SECOND_NS = 1_000_000_000
GONE_S = 60.0
"""Seconds without a value after which an alert ends, because its series does."""
TRACKED_MAX = 4096
"""The most series that rules watch."""
HISTORY_MAX = 256
"""The most alerts that are kept after they were resolved; beyond it the oldest go."""


class JudgeTime(NamedTuple):
    """One moment by two clocks: one that people read, and one that nobody sets, for spans."""

    real_ns: int
    steady_ns: int


Points = Mapping[str, Sequence[tuple[Series, float]]]
"""Metric -> its series with their values."""
Changed = tuple[Change, Alert]
Key = tuple[str, Series]


class AlertBook(msgspec.Struct, frozen=True):
    """The alerts of a node, as one agent leaves them to the next."""

    next_id: int = 1
    firing: tuple[Alert, ...] = ()
    history: tuple[Alert, ...] = ()
    """Resolved alerts, the newest last."""


class _Tracked(msgspec.Struct):
    """One series under one rule; its times are steady. `since_ns`: when it came beyond the
    threshold, or back within it while its alert fires; 0: neither."""

    seen_ns: int
    since_ns: int = 0
    count: float | None = None
    """The counter's last value, for rules of its growth."""
    alert: Alert | None = None


class AlertJudge:
    """The rules of one node and the alerts that they have come to."""

    def __init__(self, rules: Iterable[AlertRule], book: AlertBook, now: JudgeTime) -> None:
        self._rules = tuple(rules)
        self._next = book.next_id
        self._tracked: dict[Key, _Tracked] = {}
        self._history = list(book.history)
        self.counters: Counter[str] = Counter()
        self.matched: dict[str, int] = {}
        """Rule -> how many series it watches now."""
        known = {rule.name: rule for rule in self._rules}
        for alert in book.firing:
            if alert.rule in known and known[alert.rule].metric == alert.metric:
                self._tracked[alert.rule, alert.series] = _Tracked(now.steady_ns, alert=alert)
            else:
                self._keep(_resolved(alert, now, alert.value, "its rule is gone"))

    @property
    def book(self) -> AlertBook:
        """The alerts as they are now."""
        firing = [each.alert for each in self._tracked.values() if each.alert is not None]
        firing.sort(key=lambda alert: alert.id)
        return AlertBook(self._next, tuple(firing), tuple(self._history))

    def judge(self, points: Points, now: JudgeTime) -> list[Changed]:
        """Judge these values of one moment; return what changed, in the order of the rules."""
        changes = [each for rule in self._rules for each in self._of_rule(rule, points, now)]
        return changes + list(self._gone(now))

    def acknowledge(self, ids: Mapping[int, Acknowledgement]) -> list[Changed]:
        """Mark firing alerts as seen; those that are marked, or do not fire, stay as they are."""
        changes: list[Changed] = []
        for each in self._tracked.values():
            alert = each.alert
            if alert is not None and alert.id in ids and alert.acknowledged is None:
                each.alert = msgspec.structs.replace(alert, acknowledged=ids[alert.id])
                changes.append(("acknowledged", each.alert))
        return changes

    def _of_rule(self, rule: AlertRule, points: Points, now: JudgeTime) -> Iterator[Changed]:
        self.matched[rule.name] = 0
        for series, value in points.get(rule.metric, ()):
            if not _matches(rule, series):
                continue
            tracked = self._track((rule.name, series), now.steady_ns)
            if tracked is None:
                continue
            self.matched[rule.name] += 1
            judged = _growth(tracked, value, now.steady_ns) if rule.per_second else value
            tracked.seen_ns = now.steady_ns
            if judged is not None:
                yield from self._step(rule, series, tracked, judged, now)

    def _track(self, key: Key, now_ns: int) -> _Tracked | None:
        found = self._tracked.get(key)
        if found is None and len(self._tracked) >= TRACKED_MAX:
            self.counters["alert_series_refused"] += 1
            return None
        return self._tracked.setdefault(key, _Tracked(now_ns))

    def _step(
        self, rule: AlertRule, series: Series, tracked: _Tracked, value: float, now: JudgeTime
    ) -> Iterator[Changed]:
        firing = tracked.alert
        turned = _is_clear(rule, value) if firing is not None else _is_beyond(rule, value)
        if not turned:
            tracked.since_ns = 0
            return
        tracked.since_ns = tracked.since_ns or now.steady_ns
        lasted_s = (now.steady_ns - tracked.since_ns) / SECOND_NS
        if firing is None and lasted_s >= rule.for_s:
            tracked.alert = self._fire(rule, series, value, lasted_s, now)
            tracked.since_ns = 0
            yield "firing", tracked.alert
        elif firing is not None and lasted_s >= rule.clear_for_s:
            ended = _resolved(firing, now, value, _says_clear(rule, value, lasted_s))
            tracked.alert, tracked.since_ns = None, 0
            self._keep(ended)
            yield "resolved", ended

    def _fire(
        self, rule: AlertRule, series: Series, value: float, lasted_s: float, now: JudgeTime
    ) -> Alert:
        made = Alert(
            id=self._next,
            rule=rule.name,
            metric=rule.metric,
            series=series,
            state="firing",
            value=value,
            reason=_says_beyond(rule, value, lasted_s),
            fired_ns=now.real_ns,
            text=rule.text,
        )
        self._next += 1
        return made

    def _gone(self, now: JudgeTime) -> Iterator[Changed]:
        """End what has had no value for GONE_S, and forget what was only pending at once."""
        for key, tracked in list(self._tracked.items()):
            absent_s = (now.steady_ns - tracked.seen_ns) / SECOND_NS
            if absent_s <= 0:
                continue
            if tracked.alert is None:
                del self._tracked[key]
            elif absent_s >= GONE_S:
                del self._tracked[key]
                why = f"{tracked.alert.metric} has had no value for {absent_s:.0f} s"
                ended = _resolved(tracked.alert, now, tracked.alert.value, why)
                self._keep(ended)
                yield "resolved", ended

    def _keep(self, ended: Alert) -> None:
        self._history.append(ended)
        del self._history[:-HISTORY_MAX]


def _matches(rule: AlertRule, series: Series) -> bool:
    found = dict(series)
    return all(
        name in found and _pattern(pattern).fullmatch(_text(found[name]))
        for name, pattern in rule.where.items()
    )


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of a text in which `*` stands for anything."""
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


def _text(value: str | bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _growth(tracked: _Tracked, count: float, now_ns: int) -> float | None:
    """Return the growth in a second since the last value; None for the first, and for a counter
    that began again."""
    before, tracked.count = tracked.count, count
    passed_s = (now_ns - tracked.seen_ns) / SECOND_NS
    if before is None or passed_s <= 0 or count < before:
        return None
    return (count - before) / passed_s


def _is_beyond(rule: AlertRule, value: float) -> bool:
    if rule.above is not None:
        return value > rule.above
    return rule.below is not None and value < rule.below


def _is_clear(rule: AlertRule, value: float) -> bool:
    if rule.above is not None:
        return value <= (rule.above if rule.clear is None else rule.clear)
    assert rule.below is not None
    return value >= (rule.below if rule.clear is None else rule.clear)


def _says_beyond(rule: AlertRule, value: float, lasted_s: float) -> str:
    bound = f"above {rule.above:g}" if rule.above is not None else f"below {rule.below:g}"
    lasted = f" for {lasted_s:.0f} s" if lasted_s >= 1 else ""
    return f"{_says(rule, value)}, {bound}{lasted}"


def _says_clear(rule: AlertRule, value: float, lasted_s: float) -> str:
    bound = (
        rule.clear
        if rule.clear is not None
        else (rule.above if rule.above is not None else rule.below)
    )
    word = "not above" if rule.above is not None else "not below"
    lasted = f" for {lasted_s:.0f} s" if lasted_s >= 1 else ""
    return f"{_says(rule, value)}, {word} {bound:g}{lasted}"


def _says(rule: AlertRule, value: float) -> str:
    word = unit(rule)
    grows = "grows by" if rule.per_second else "is"
    return f"{rule.metric} {grows} {value:.6g}{f' {word}' if word else ''}"


def _resolved(alert: Alert, now: JudgeTime, value: float, why: str) -> Alert:
    return msgspec.structs.replace(
        alert, state="resolved", resolved_ns=now.real_ns, value=value, reason=why
    )
