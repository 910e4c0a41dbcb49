# SPDX-License-Identifier: Apache-2.0
"""A node's key is judged by all that its connections send; one that floods is kept out for a while,
longer each time, and comes back by itself."""

from __future__ import annotations

import pytest

from stoker.mesh.server import flood_judge
from stoker.mesh.server.flood_judge import (
    BYTES_PER_S,
    CONNECTIONS_MAX,
    FORGET_NS,
    KEEP_OUT_NS,
    KNOCKS_MAX,
    MESSAGES_PER_S,
    NS,
    SHUT_NS,
    SUBSCRIPTIONS_MAX,
    BrokerTotals,
    ConnectionFigures,
    FloodJudge,
    KeptOut,
    Suspicion,
)

NOW = 50 * NS
NODES = {"K1": "n1", "K2": "n2"}


def row(
    number: int, key: str, messages: int = 0, bytes_: int = 0, subscriptions: int = 3
) -> ConnectionFigures:
    return ConnectionFigures(number, key, messages, bytes_, subscriptions)


def cut(judge: FloodJudge, now_ns: int, *found: ConnectionFigures) -> list[int]:
    return [each.number for each in judge.judge(found, NODES, now_ns)]


def test_who_sends_more_than_a_second_of_its_rate_at_once_is_cut() -> None:
    judge, burst = FloodJudge(), 2 * MESSAGES_PER_S
    assert cut(judge, NOW, row(1, "K1", 10**9), row(2, "K2")) == [], "what was before is not known"
    (found,) = judge.judge([row(1, "K1", 10**9 + burst), row(2, "K2", 9)], NODES, NOW + NS // 10)
    assert (found.number, found.key) == (1, "K1")
    assert found.why == "20,000 messages of 0 bytes in 0.1 s"


def test_a_node_may_send_its_rate_for_ever_and_a_burst_now_and_then() -> None:
    judge, sent = FloodJudge(), 0
    for tick in range(100):
        assert cut(judge, NOW + tick * NS // 5, row(1, "K1", sent)) == []
        sent += MESSAGES_PER_S // 5 + (MESSAGES_PER_S // 2 if tick % 20 == 10 else 0)
        sent -= MESSAGES_PER_S // 5 if 10 < tick % 20 < 14 else 0


def test_a_little_more_than_the_rate_is_too_much_in_the_end() -> None:
    judge, sent, ticks = FloodJudge(), 0, 0
    while not cut(judge, NOW + ticks * NS // 5, row(1, "K1", sent)):
        sent, ticks = sent + MESSAGES_PER_S // 4, ticks + 1
    assert 20 <= ticks <= 25


def test_bytes_count_as_well_as_messages() -> None:
    judge = FloodJudge()
    cut(judge, NOW, row(1, "K1"))
    (found,) = judge.judge([row(1, "K1", 200, 3 * BYTES_PER_S)], NODES, NOW + NS)
    assert found.why == "200 messages of 192 MiB in 1.0 s"


def test_a_flood_over_many_connections_is_one_flood_and_the_quiet_ones_stay() -> None:
    judge = FloodJudge()
    own = [row(number, "K1") for number in range(1, 9)]
    assert cut(judge, NOW, *own) == []
    sent = [row(number, "K1", 4000 if number > 3 else 10) for number in range(1, 9)]
    assert cut(judge, NOW + NS // 10, *sent) == [8, 7, 6, 5, 4]


def test_a_connection_that_is_new_brings_all_that_it_sent() -> None:
    judge = FloodJudge()
    cut(judge, NOW, row(1, "K1"))
    assert cut(judge, NOW + NS // 10, row(1, "K1"), row(2, "K1", 2 * MESSAGES_PER_S)) == [2]


def test_subscriptions_and_connections_have_bounds() -> None:
    judge = FloodJudge()
    assert cut(judge, NOW, row(1, "K1", subscriptions=SUBSCRIPTIONS_MAX + 1)) == [1]
    many = [row(number, "K2") for number in range(CONNECTIONS_MAX + 2)]
    newest = [CONNECTIONS_MAX + 1, CONNECTIONS_MAX]
    assert cut(judge, NOW + NS, *many) == newest, "the oldest stay: an agent was there first"


def test_who_is_no_node_is_never_cut() -> None:
    judge = FloodJudge()
    scheduler = row(1, "S", subscriptions=10**6)
    cut(judge, NOW, scheduler)
    assert cut(judge, NOW + NS, scheduler._replace(messages=10**9)) == []


def test_connections_are_looked_at_when_totals_grow_fast() -> None:
    suspicion, quiet = Suspicion(), BrokerTotals(10, 10, 10, 9, 90)
    assert suspicion.arises(quiet, NOW), "nothing is known before"
    suspicion.looked()
    assert not suspicion.arises(quiet._replace(messages=500), NOW + NS)
    assert suspicion.arises(quiet._replace(messages=500 + MESSAGES_PER_S), NOW + 2 * NS)
    calm = quiet._replace(messages=500 + MESSAGES_PER_S)
    assert not suspicion.arises(calm, NOW + 3 * NS)
    assert suspicion.arises(calm._replace(connections=9 + CONNECTIONS_MAX), NOW + 4 * NS)
    assert suspicion.arises(calm._replace(subscriptions=90 + SUBSCRIPTIONS_MAX), NOW + 5 * NS)
    assert suspicion.arises(calm._replace(sent=10**6), NOW + 6 * NS)


def test_a_key_is_kept_out_twice_as_long_each_time_and_forgotten_later() -> None:
    out = KeptOut()
    out.keep("K1", NOW)
    first, most = KEEP_OUT_NS
    assert out.refuses("K1", NOW + first - 1) and not out.refuses("K2", NOW)
    assert not out.refuses("K1", NOW + first), "it comes back by itself"
    at, lasts = NOW + first, first
    for _ in range(8):
        out.keep("K1", at)
        lasts = min(2 * lasts, most)
        assert out.lasts_ns("K1") == lasts
        at += lasts
    out.keep("K1", at + FORGET_NS)
    assert out.lasts_ns("K1") == first


def test_a_key_that_knocks_on_and_on_is_shut_out_at_once_the_next_time() -> None:
    out = KeptOut()
    out.keep("K1", NOW)
    for _ in range(KNOCKS_MAX):
        assert out.refuses("K1", NOW + 1)
    assert not out.shut(NOW + 1)
    assert out.refuses("K1", NOW + 1) and out.shut(NOW + 1) == {"K1"}
    again = NOW + 1 + SHUT_NS[0]
    assert not out.shut(again)
    out.keep("K1", again)
    assert out.shut(again) == {"K1"} and out.lasts_ns("K1") == 2 * SHUT_NS[0]


def test_the_keys_that_are_kept_out_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flood_judge, "KEYS_MAX", 4)
    out = KeptOut()
    for number in range(50):
        out.keep(f"K{number}", NOW)
        assert len(out._out) <= 4
