# SPDX-License-Identifier: Apache-2.0
"""The judge of alerts: thresholds, durations, hysteresis, absence, growth, bounds."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest

from stoker.agent.alerts import judge as judges
from stoker.agent.alerts.alert import Acknowledgement, Series
from stoker.agent.alerts.judge import AlertBook, AlertJudge, Changed, JudgeTime
from stoker.agent.alerts.rule import AlertRule

CARD: Series = (("hw.id", "GPU-1"), ("hw.name", "L40S SIM"), ("hw.type", "gpu"))
OTHER: Series = (("hw.id", "GPU-2"), ("hw.name", "L40S SIM"), ("hw.type", "gpu"))
HOT = AlertRule(
    name="hot", metric="hw.temperature", above=85.0, clear=80.0, for_s=10, clear_for_s=5
)
REAL = 1_700_000_000_000_000_000


class Bench:
    """A judge with a clock."""

    def __init__(self, *rules: AlertRule, book: AlertBook | None = None) -> None:
        self.t_s = 0.0
        self.judge = AlertJudge(rules, book or AlertBook(), self.now)

    @property
    def now(self) -> JudgeTime:
        passed_ns = round(self.t_s * 1e9)
        return JudgeTime(REAL + passed_ns, 77 + passed_ns)

    def at(self, t_s: float, *values: float, series: Series = CARD) -> list[Changed]:
        """Judge one moment, at which the series has this value, or none."""
        self.t_s = t_s
        metric = self.judge._rules[0].metric
        return self.judge.judge({metric: [(series, value) for value in values]}, self.now)


def said(changes: list[Changed]) -> list[tuple[str, str]]:
    return [(change, alert.reason) for change, alert in changes]


def test_an_alert_fires_after_its_duration_and_is_resolved_below_clear() -> None:
    bench = Bench(HOT)
    assert bench.at(0, 90) == []
    assert bench.at(9, 91) == []
    assert said(bench.at(10, 92)) == [("firing", "hw.temperature is 92 Cel, above 85 for 10 s")]
    assert bench.at(11, 82) == []  # not hot, and not clear
    assert bench.at(20, 80) == []
    assert bench.at(24, 79) == []
    assert said(bench.at(25, 78)) == [
        ("resolved", "hw.temperature is 78 Cel, not above 80 for 5 s")
    ]
    (kept,) = bench.judge.book.history
    assert (kept.fired_ns, kept.resolved_ns) == (REAL + 10 * 10**9, REAL + 25 * 10**9)
    assert bench.judge.book.firing == ()


def test_a_value_that_swings_is_one_alert_and_one_that_dips_is_none() -> None:
    bench = Bench(HOT)
    for t in range(0, 60, 2):
        assert bench.at(t, 90 if t % 4 else 84) == []  # never 10 s in a row
    bench.at(60, 90)
    assert [change for change, _ in bench.at(70, 90)] == ["firing"]
    for t in range(72, 200, 2):
        assert bench.at(t, 90 if t % 4 else 79) == []  # never clear for 5 s
    assert len(bench.judge.book.firing) == 1


def test_an_absent_value_neither_fires_nor_clears_and_a_gone_series_ends() -> None:
    bench = Bench(HOT)
    bench.at(0, 90)
    bench.at(5)
    assert bench.at(11, 90) == []  # the duration began anew
    assert [change for change, _ in bench.at(21, 90)] == ["firing"]
    assert bench.at(22) == []
    assert bench.at(80) == []
    assert said(bench.at(82)) == [("resolved", "hw.temperature has had no value for 61 s")]
    assert bench.at(200) == []


def test_a_rule_below_its_threshold() -> None:
    rule = AlertRule(name="idle", metric="hw.gpu.utilization", below=0.05, clear=0.2)
    bench = Bench(rule)
    assert said(bench.at(0, 0.01)) == [("firing", "hw.gpu.utilization is 0.01, below 0.05")]
    assert bench.at(1, 0.1) == []
    assert said(bench.at(2, 0.2)) == [("resolved", "hw.gpu.utilization is 0.2, not below 0.2")]


def test_the_growth_of_a_counter() -> None:
    rule = AlertRule(name="ecc", metric="hw.errors", above=1.0, per_second=True)
    bench = Bench(rule)
    assert bench.at(0, 1000) == []  # the first value says nothing of growth
    assert bench.at(10, 1005) == []
    assert said(bench.at(20, 1045)) == [("firing", "hw.errors grows by 4 /s, above 1")]
    assert bench.at(30, 3) == []  # it began again: nothing is known
    assert said(bench.at(40, 3)) == [("resolved", "hw.errors grows by 0 /s, not above 1")]


def test_a_rule_watches_the_series_that_it_names() -> None:
    rule = msgspec.structs.replace(HOT, for_s=0.0, where={"hw.id": "GPU-*", "hw.type": "gpu"})
    narrow = msgspec.structs.replace(rule, name="one", where={"hw.id": "GPU-2"})
    bench = Bench(rule, narrow)
    fired = [alert.rule for _, alert in bench.at(0, 90)]
    assert fired == ["hot"]
    assert [alert.rule for _, alert in bench.at(1, 90, series=OTHER)] == ["hot", "one"]
    assert bench.judge.matched == {"hot": 1, "one": 1}
    dot = msgspec.structs.replace(rule, where={"hw.id": "GPU.1"})
    assert Bench(dot).at(0, 90) == []


def test_the_next_agent_goes_on_and_tells_nothing_twice() -> None:
    bench = Bench(msgspec.structs.replace(HOT, for_s=0.0))
    bench.at(0, 90)
    book = msgspec.json.decode(msgspec.json.encode(bench.judge.book), type=AlertBook)
    after = Bench(HOT, book=book)
    assert after.at(1, 90) == []
    after.at(2, 70)
    assert [(change, alert.id) for change, alert in after.at(7, 70)] == [("resolved", 1)]
    after.at(20, 90)
    assert [alert.id for _, alert in after.at(30, 90)] == [2]


def test_an_alert_whose_rule_is_gone_is_resolved() -> None:
    bench = Bench(msgspec.structs.replace(HOT, for_s=0.0))
    bench.at(0, 90)
    other = AlertRule(name="other", metric="hw.power", above=1.0)
    book = Bench(other, book=bench.judge.book).judge.book
    assert book.firing == ()
    assert [alert.reason for alert in book.history] == ["its rule is gone"]


def test_an_acknowledgement_stays_with_its_alert_and_is_told_once() -> None:
    bench = Bench(msgspec.structs.replace(HOT, for_s=0.0))
    bench.at(0, 90)
    seen = {1: Acknowledgement("ann", 5, "a fan is coming"), 9: Acknowledgement("ann", 5)}
    ((change, alert),) = bench.judge.acknowledge(seen)
    assert (change, alert.acknowledged) == ("acknowledged", seen[1])
    assert bench.judge.acknowledge(seen) == []
    bench.at(1, 70)
    ((_, ended),) = bench.at(6, 70)
    assert ended.acknowledged == seen[1]


def test_what_is_beyond_the_bounds_is_counted_and_history_forgets_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judges, "TRACKED_MAX", 1)
    monkeypatch.setattr(judges, "HISTORY_MAX", 3)
    rule = AlertRule(name="hot", metric="hw.temperature", above=85.0)
    bench = Bench(rule)
    bench.judge.judge({rule.metric: [(CARD, 1.0), (OTHER, 99.0)]}, bench.now)
    assert bench.judge.counters["alert_series_refused"] == 1
    for t in range(1, 21):
        bench.at(t, 90 if t % 2 else 20)
    assert [alert.id for alert in bench.judge.book.history] == [8, 9, 10]


@pytest.mark.parametrize("seed", range(20))
def test_firing_and_resolved_take_turns_whatever_the_values_are(seed: int) -> None:
    chance = random.Random(seed)
    bench, told = Bench(HOT), []
    t_s, hot = 0, False
    for _ in range(60):
        hot = hot != (chance.random() < 0.6)
        for _ in range(chance.randrange(1, 25)):
            swing = 8.0 if chance.random() < 0.03 else 0.0
            value = 90.0 - swing if hot else 75.0 + swing
            present = (value,) if chance.random() > 0.02 else ()
            told += [change for change, _ in bench.at(t_s, *present)]
            t_s += 1
    assert len(told) > 2
    assert told[0] == "firing"
    assert all(one != next_ for one, next_ in itertools.pairwise(told))
