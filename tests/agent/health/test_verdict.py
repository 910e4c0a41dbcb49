# SPDX-License-Identifier: Apache-2.0
"""Signals in, findings out: counts, windows, proofs, relapses, storms. Time is a number here."""

from __future__ import annotations

import random

import pytest

from stoker.agent.health.case import DOUBLED_MAX, SavedCase
from stoker.agent.health.signals import KINDS, NODE, RESET, Kind, Signal
from stoker.agent.health.table import HOLDING, RULES, S, rules
from stoker.agent.health.verdict import END_AGAIN_NS, REASON_CHARS_MAX, WELL, Finding, Verdict
from stoker.agent.health.xids import LAST


def hear(
    verdict: Verdict, kind: Kind, at_s: float, number: int = 0, *, times: int = 1, card: str = "a"
) -> list[Finding]:
    return verdict.hear(Signal(card, kind, int(at_s * S), number, "words", times))


def tick(verdict: Verdict, at_s: float) -> list[Finding]:
    return verdict.tick(int(at_s * S))


def test_a_card_that_fell_off_is_held_until_it_is_back_for_a_while() -> None:
    verdict = Verdict()
    (found,) = hear(verdict, "lost", 1)
    assert (found.what, found.action, found.ends) == ("raised", "reset", True)
    assert verdict.holds() == {"a": "needs reset: the card does not answer (words)"}
    assert tick(verdict, 3.9) == []
    (over,) = tick(verdict, 4)
    assert (over.what, over.ends) == ("over", False)
    assert verdict.holds() == {} and verdict.standing("a") == WELL


def test_after_a_reset_xid_nothing_but_a_reset_helps() -> None:
    verdict = Verdict()
    hear(verdict, "xid", 1, 79)
    assert tick(verdict, 1e6) == []
    hear(verdict, "reset_seen", 1e6)
    assert tick(verdict, 1e6 + 4.9) == []
    assert [f.number for f in tick(verdict, 1e6 + 5)] == [79]
    assert verdict.holds() == {}
    assert verdict.warnings() == {"a": "the card was reset (words)"}


def test_a_reset_before_the_error_is_no_proof() -> None:
    verdict = Verdict()
    hear(verdict, "reset_seen", 1)
    hear(verdict, "xid", 2, 95)
    tick(verdict, 1e5)
    assert verdict.holds() == {"a": "needs reset: Xid 95: uncontained memory error"}


def test_the_device_is_the_failure_domain() -> None:
    verdict = Verdict()
    hear(verdict, "xid", 1, 79, card="a")
    hear(verdict, "xid", 1, 63, card="b")
    assert set(verdict.holds()) == {"a"} and set(verdict.warnings()) == {"b"}
    assert verdict.drain() == ""


def test_the_worst_holds_and_what_is_milder_comes_back_after_it() -> None:
    verdict = Verdict()
    hear(verdict, "brake", 1)
    hear(verdict, "hung", 1)
    hear(verdict, "brake", 4)
    assert verdict.standing("a").action == "cordon"
    tick(verdict, 5)
    assert verdict.standing("a").action == "warn"


def test_a_node_is_drained_as_long_as_a_card_asks_for_it() -> None:
    verdict = Verdict()
    hear(verdict, "recovery", 1, NODE)
    assert verdict.drain().startswith("device a: the driver asks for a restart of the node")
    hear(verdict, "xid", 1, 79)  # a card may need a reset besides
    assert verdict.drain()
    tick(verdict, 10)
    assert verdict.drain() == ""
    hear(verdict, "recovery", 20, RESET)
    assert verdict.drain() == "" and "a" in verdict.holds()


def test_counts_within_a_window() -> None:
    verdict = Verdict()
    assert [f.action for f in hear(verdict, "ecc_corrected", 1, times=99)] == ["ignore"]
    assert verdict.standing("a") == WELL
    assert hear(verdict, "ecc_corrected", 60.9) != []  # the hundredth within a minute
    assert verdict.standing("a").action == "warn"


def test_what_is_older_than_the_window_does_not_count() -> None:
    verdict = Verdict()
    for second in range(0, 200, 2):
        hear(verdict, "ecc_corrected", second, times=3)
    assert verdict.standing("a") == WELL  # 90 a minute


def test_the_third_memory_error_of_an_hour_wants_a_reset() -> None:
    verdict = Verdict()
    assert hear(verdict, "ecc_uncorrected", 0)[0].action == "restart"
    assert hear(verdict, "ecc_uncorrected", 1) == []
    (worse,) = hear(verdict, "ecc_uncorrected", 2)
    assert (worse.action, worse.ends) == ("reset", True)


def test_a_storm_costs_few_findings_and_its_first_is_not_hidden() -> None:
    verdict = Verdict()
    found = [f for i in range(10_000) for f in hear(verdict, "xid", 1 + i * 1e-4, 31)]
    assert [(f.what, f.action) for f in found] == [("raised", "restart"), ("raised", "cordon")]
    assert found[0].times == 1 and found[0].reason == "Xid 31: GPU memory page fault"
    assert verdict.counters["health_signals"] == 10_000
    assert verdict.counters["health_repeats"] == 9_998


def test_a_storm_that_comes_in_one_batch_ends_the_job_all_the_same() -> None:
    verdict = Verdict()
    found = hear(verdict, "xid", 1, 31, times=10_000)
    assert [(f.what, f.action, f.ends) for f in found] == [
        ("raised", "restart", True),
        ("raised", "cordon", False),
    ]
    assert (found[0].times, found[1].times) == (1, 10_000)
    assert verdict.counters["health_signals"] == 10_000
    assert hear(verdict, "xid", 2, 31, times=100) == []


def test_a_number_beyond_the_catalogue_is_told_as_it_is() -> None:
    (found,) = hear(Verdict(), "xid", 1, 999)
    assert (found.action, found.reason) == ("warn", "Xid 999: not in the catalogue")


def test_a_storm_of_every_number_is_bounded_by_the_catalogue() -> None:
    verdict = Verdict()
    chance = random.Random(1)
    numbers = [chance.randrange(1, 1 << 31) for _ in range(5000)] + [*range(1, 400)]
    found = [f for n in numbers for f in hear(verdict, "xid", 1, n)]
    assert len(found) <= 2 * LAST + 2
    assert "a" in verdict.holds()


def test_attempts_are_ended_again_but_not_for_each_signal() -> None:
    verdict = Verdict()
    assert [f.what for f in hear(verdict, "xid", 1, 94)] == ["raised"]
    assert hear(verdict, "xid", 1.5, 94) == []
    (again,) = hear(verdict, "xid", 1 + END_AGAIN_NS / S, 94)
    assert (again.what, again.ends) == ("again", True)


def test_who_falls_ill_again_has_to_be_clean_for_longer() -> None:
    verdict, now, waits = Verdict(), 0.0, []
    for _ in range(4):
        hear(verdict, "link_down", now)
        begun = now
        while verdict.holds():
            now += 0.5
            tick(verdict, now)
        waits.append(now - begun)
    assert waits == [10, 20, 40, 80]
    hear(verdict, "link_down", now + 7200)  # after a quiet hour it is as at first
    assert tick(verdict, now + 7210) != []
    assert DOUBLED_MAX == 5


def test_what_holds_outlives_the_agent() -> None:
    verdict = Verdict()
    hear(verdict, "xid", 1, 48)
    hear(verdict, "brake", 1)
    saved = verdict.saved()
    assert [each.kind for each in saved] == ["xid"]
    later = Verdict(saved)
    assert later.holds() == verdict.holds()
    assert tick(later, 1000) == []
    hear(later, "reset_seen", 1001)
    tick(later, 1010)
    assert later.holds() == {}


def test_a_reason_is_bounded_whatever_a_driver_says() -> None:
    verdict = Verdict()
    (found,) = verdict.hear(Signal("a", "missing", 1, text="x" * 10_000))
    assert len(found.reason) == REASON_CHARS_MAX
    assert len(verdict.holds()["a"]) < REASON_CHARS_MAX + 20


def test_a_saved_case_of_a_rule_that_is_gone_still_holds() -> None:
    saved = SavedCase("a", "hung", 0, 1, 1, 1, "", 7)
    assert Verdict([saved]).holds() == {"a": "sick: a call into the driver does not return"}


@pytest.mark.parametrize("seed", range(5))
def test_a_card_is_held_exactly_as_long_as_a_rule_says(seed: int) -> None:
    """The oracle reads the rules plainly, for kinds with one rule and no reset."""
    chance = random.Random(seed)
    kinds = [k for k in KINDS if k in RULES and len(rules(k)) == 1]
    kinds = [k for k in kinds if rules(k)[0].action == "cordon"]
    verdict, last, now = Verdict(), {}, 0.0
    raised: dict[Kind, list[float]] = {}
    for _ in range(400):
        now += chance.choice((0.1, 1.0, 5.0, 40.0))
        tick(verdict, now)
        for kind in [k for k in last if now - last[k] >= clean(k, raised, last)]:
            del last[kind]
        kind = chance.choice(kinds)
        if kind not in last:
            raised.setdefault(kind, []).append(now)
        last[kind] = now
        hear(verdict, kind, now)
        assert bool(verdict.holds()) == bool(last)
        assert verdict.standing("a").action in HOLDING


def clean(kind: Kind, raised: dict[Kind, list[float]], last: dict[Kind, float]) -> float:
    begun = raised[kind][-1]
    relapses = sum(begun - at < 3600 for at in raised[kind][:-1][-8:])
    return rules(kind)[0].clean_s * 2 ** min(relapses, DOUBLED_MAX)
