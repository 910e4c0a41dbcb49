# SPDX-License-Identifier: Apache-2.0
"""The node's judge: no order, delay, repetition or forgery of answers lengthens a lease."""

from __future__ import annotations

import msgspec
import pytest
from fakes.orders import CLUSTER, NODE, Seal
from hypothesis import given
from hypothesis import strategies as st

from stoker.agent.jobs.lease_judge import (
    CALM_LEFT_NS,
    CALM_NS,
    HURRY_NS,
    OUTSTANDING_MAX,
    Freeze,
    LeaseExtended,
    LeaseHolder,
    LeaseJudge,
    LeaseRefused,
)
from stoker.mesh.wire.command import Position
from stoker.mesh.wire.lease_messages import (
    FORMAT,
    LeaseAnswer,
    LeaseGrant,
    LeaseRequest,
    open_request,
    seal_answer,
)

MS = 1_000_000
LEASE_MS = 5000
LEASE_NS = LEASE_MS * MS
BEGIN = 1_000_000 * MS
INSTANCE = 7
AT = Position(3, 100, b"h" * 32)


class Ends:
    """A judge with nonces that a test foresees, and a scheduler that answers what it is told to."""

    def __init__(self, expiry_ns: int = 0) -> None:
        self.now_ns = BEGIN
        self.number = 0
        self.judge = LeaseJudge(
            LeaseHolder(CLUSTER, NODE, INSTANCE), [Seal()], self.new_nonce, expiry_ns
        )

    def new_nonce(self) -> int:
        self.number += 1
        return self.number

    def request(self, *, frozen: bool = False) -> LeaseRequest:
        return open_request(self.judge.request(self.now_ns, AT, frozen=frozen), NODE)

    def hear(
        self, data: bytes, freeze: Freeze | None = None, at: Position = AT
    ) -> LeaseExtended | LeaseRefused:
        return self.judge.judge(data, self.now_ns, at, freeze)


def answer(*requests: LeaseRequest, term: int = 3, **changes: object) -> bytes:
    grants = tuple(
        LeaseGrant(each.node, each.instance, each.stamp_ns, each.nonce, AT.seq, AT.hash)
        for each in requests
    )
    made = LeaseAnswer(FORMAT, CLUSTER, term, False, LEASE_MS, 9, grants)
    return seal_answer(msgspec.structs.replace(made, **changes), Seal())


def test_a_lease_counts_from_the_request() -> None:
    ends = Ends()
    request = ends.request()
    ends.now_ns += 700 * MS
    assert ends.hear(answer(request)) == LeaseExtended(BEGIN + LEASE_NS, AT, BEGIN)
    assert ends.judge.counters == {"lease_renewed": 1}


def test_a_delayed_answer_gives_what_is_left_and_a_late_one_nothing() -> None:
    ends = Ends()
    data = answer(ends.request())
    ends.now_ns += LEASE_NS - 1
    assert ends.hear(data) == LeaseExtended(BEGIN + LEASE_NS, AT, BEGIN)
    late = Ends()
    data = answer(late.request())
    late.now_ns += LEASE_NS
    assert late.hear(data) == LeaseRefused("lease_late")
    assert late.judge.counters == {"lease_late": 1} and late.judge.expiry_ns == 0


def test_a_replayed_answer_counts_once() -> None:
    ends = Ends()
    data = answer(ends.request())
    ends.hear(data)
    ends.now_ns += 1000 * MS
    assert ends.hear(data) == LeaseRefused("lease_nonce")
    assert ends.judge.expiry_ns == BEGIN + LEASE_NS
    assert ends.judge.counters == {"lease_renewed": 1, "lease_nonce": 1}


def test_a_reordered_answer_counts_for_nothing() -> None:
    ends = Ends()
    first = ends.request()
    ends.now_ns += 1000 * MS
    second = ends.request()
    assert ends.hear(answer(second)) == LeaseExtended(ends.now_ns + LEASE_NS, AT, ends.now_ns)
    assert ends.hear(answer(first)) == LeaseRefused("lease_nonce")
    assert ends.judge.expiry_ns == BEGIN + 1000 * MS + LEASE_NS
    assert ends.judge.counters == {"lease_renewed": 1, "lease_nonce": 1}


def test_an_answer_to_an_earlier_process_counts_for_nothing() -> None:
    before, ends = Ends(), Ends()
    data = answer(before.request())
    assert ends.hear(data) == LeaseRefused("lease_nonce")
    ends.request()
    other = msgspec.structs.replace(ends.request(), instance=INSTANCE - 1)
    assert ends.hear(answer(other)) == LeaseRefused("lease_node")
    assert ends.judge.counters == {"lease_nonce": 1, "lease_node": 1}
    assert ends.judge.expiry_ns == 0


@pytest.mark.parametrize("stamp_ns", [BEGIN + LEASE_NS, BEGIN + 1, BEGIN - 1, 1])
def test_a_renewal_from_the_past_or_the_future_counts_for_nothing(stamp_ns: int) -> None:
    ends = Ends()
    changed = msgspec.structs.replace(ends.request(), stamp_ns=stamp_ns)
    assert ends.hear(answer(changed)) == LeaseRefused("lease_nonce")
    assert ends.judge.counters == {"lease_nonce": 1} and ends.judge.expiry_ns == 0


@pytest.mark.parametrize(
    ("changes", "counter"),
    [
        ({"cluster": "other"}, "lease_cluster"),
        ({"term": AT.term - 1}, "lease_term"),
        ({"format": FORMAT + 1}, "lease_format"),
        ({"grants": ()}, "lease_node"),
        ({"lease_ms": 5001}, "lease_format"),
    ],
)
def test_foreign_answers_are_counted(changes: dict[str, object], counter: str) -> None:
    ends = Ends()
    request = ends.request()
    assert ends.hear(answer(request, **changes)) == LeaseRefused(counter)
    assert ends.judge.counters == {counter: 1}
    assert isinstance(ends.hear(answer(request)), LeaseExtended)  # the request is still open


def test_a_forged_answer_is_counted() -> None:
    ends = Ends()
    data = answer(ends.request())
    assert ends.hear(bytes([data[0] ^ 1]) + data[1:]) == LeaseRefused("lease_signature")
    assert ends.judge.counters == {"lease_signature": 1} and ends.judge.expiry_ns == 0


def test_no_answer_of_an_older_term_follows_one_of_a_newer() -> None:
    ends = Ends()
    ends.hear(answer(ends.request(), term=5))
    assert ends.hear(answer(ends.request(), term=4)) == LeaseRefused("lease_term")


def test_a_candidate_only_extends() -> None:
    ends = Ends()
    assert ends.hear(answer(ends.request(), extend_only=True)) == LeaseRefused("lease_extend_only")
    held = Ends(expiry_ns=BEGIN + 1)
    assert isinstance(held.hear(answer(held.request(), extend_only=True)), LeaseExtended)
    held.now_ns += LEASE_NS - 1
    request = held.request()
    held.now_ns += 1  # the lease ends now
    assert held.hear(answer(request, extend_only=True)) == LeaseRefused("lease_extend_only")
    assert isinstance(held.hear(answer(request)), LeaseExtended)


def test_frozen_jobs_need_an_answer_to_a_request_after_the_freeze() -> None:
    ends = Ends()
    before = ends.request()
    freeze = Freeze(1, BEGIN)
    assert ends.hear(answer(before), freeze) == LeaseRefused("lease_before_freeze")
    ends.now_ns += 1
    after = ends.request(frozen=True)
    assert ends.hear(answer(after, extend_only=True), freeze) == LeaseRefused("lease_extend_only")
    assert isinstance(ends.hear(answer(after), freeze), LeaseExtended)


def test_a_flood_of_requests_keeps_the_newest() -> None:
    ends = Ends()
    requests = [ends.request() for _ in range(OUTSTANDING_MAX + 2)]
    assert ends.judge.counters == {"lease_unanswered": 2}
    assert ends.hear(answer(requests[1])) == LeaseRefused("lease_nonce")
    assert isinstance(ends.hear(answer(requests[2])), LeaseExtended)


def test_requests_hurry_without_a_lease_and_near_its_end() -> None:
    ends = Ends()
    assert ends.judge.due_ns() == 0
    request = ends.request()
    assert ends.judge.due_ns() == BEGIN + HURRY_NS
    ends.hear(answer(request))
    assert ends.judge.due_ns() == BEGIN + CALM_NS
    ends.now_ns = BEGIN + LEASE_NS - CALM_LEFT_NS
    ends.request()
    assert ends.judge.due_ns() == ends.now_ns + HURRY_NS


# --- any history ----------------------------------------------------------------------------------

MOVES = st.one_of(
    st.tuples(st.just("wait"), st.integers(0, 3000)),
    st.tuples(st.just("request"), st.booleans()),
    st.tuples(st.just("answer"), st.integers(0, 1 << 16), st.integers(2, 5), st.booleans()),
    st.tuples(st.just("deliver"), st.integers(0, 1 << 16), st.booleans()),
    st.tuples(st.just("forge"), st.integers(0, 1 << 16), st.integers(0, 1 << 16)),
    st.tuples(st.just("restart")),
)


class History:
    """Every request and answer of a node's processes; any of them may be delivered at any time."""

    def __init__(self) -> None:
        self.ends = Ends()
        self.requests: list[LeaseRequest] = []
        self.answers: list[tuple[int, bytes]] = []
        """Each answer with the newest stamp that it answers; 0 if it was forged."""
        self.bound_ns = 0
        """The most that the lease may be: the newest stamp that was answered, plus the lease."""

    def wait(self, milliseconds: int) -> None:
        self.ends.now_ns += milliseconds * MS

    def request(self, frozen: bool) -> None:
        self.requests.append(self.ends.request(frozen=frozen))

    def answer(self, pick: int, term: int, extend_only: bool) -> None:
        if self.requests:
            request = self.requests[pick % len(self.requests)]
            data = answer(request, term=term, extend_only=extend_only)
            self.answers.append((request.stamp_ns, data))

    def deliver(self, pick: int, frozen: bool) -> None:
        if not self.answers:
            return
        stamp_ns, data = self.answers[pick % len(self.answers)]
        freeze = Freeze(1, self.ends.now_ns) if frozen else None
        before_ns, now_ns = self.ends.judge.expiry_ns, self.ends.now_ns
        verdict = self.ends.hear(data, freeze)
        if isinstance(verdict, LeaseExtended):
            assert stamp_ns
            assert not frozen
            self.bound_ns = max(self.bound_ns, stamp_ns + LEASE_NS)
            assert before_ns <= verdict.expiry_ns <= min(self.bound_ns, now_ns + LEASE_NS)

    def forge(self, pick: int, at: int) -> None:
        if self.answers:
            data = self.answers[pick % len(self.answers)][1]
            at %= len(data)
            self.answers.append((0, data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]))

    def restart(self) -> None:
        number = self.ends.number
        now_ns, self.ends = self.ends.now_ns, Ends(self.ends.judge.expiry_ns)
        self.ends.now_ns, self.ends.number = now_ns, number


@given(st.lists(MOVES, max_size=60))
def test_no_history_lengthens_a_lease(moves: list[tuple[object, ...]]) -> None:
    history = History()
    for name, *arguments in moves:
        getattr(history, str(name))(*arguments)
        assert history.ends.judge.expiry_ns <= history.bound_ns
