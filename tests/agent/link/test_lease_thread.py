# SPDX-License-Identifier: Apache-2.0
"""The lease follows the scheduler while the loops of agent and scheduler are busy."""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from stoker.agent.jobs import steps
from stoker.agent.jobs.lease_judge import Freeze, LeaseHolder, LeaseJudge
from stoker.agent.link import lease_thread
from stoker.agent.link.agent_client import MessageHandler
from stoker.agent.link.agent_connection import AgentConnection
from stoker.agent.link.lease_thread import LeaseThread
from stoker.agent.state.lease import _AGENT_SEEN, MOST_NS, Lease
from stoker.mesh.connection.nats_frames import Delivery
from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica.authority import LEASE_MS, Authority, NodePlace
from stoker.mesh.server.lease_answer_thread import LeaseAnswerThread
from stoker.mesh.wire import subjects
from stoker.mesh.wire.command import Position
from stoker.mesh.wire.lease_messages import (
    FORMAT,
    LeaseAnswer,
    LeaseGrant,
    LeaseRequest,
    open_request,
    seal_answer,
)
from tests.mesh.conftest import keyring, stopped_server  # noqa: F401  # fixtures
from tests.mesh.nats_server import Server
from tests.mesh.node import write_state
from tests.mesh.several_brokers import joined

CLUSTER, NODE = "test-cluster", "node1"
AT = Position(1, 7)
LEASE_NS = LEASE_MS * 1_000_000
PATIENCE_S = 30.0


def boot_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def judge_of(signer: Identity) -> LeaseJudge:
    nonces = itertools.count(1)
    return LeaseJudge(LeaseHolder(CLUSTER, NODE, 1), [signer.verifier], lambda: next(nonces))


def connection(server: Server, hear: MessageHandler) -> AgentConnection:
    seed, inbox = server.folder / f"{NODE}.nk", subjects.inbox(f"agent.{NODE}")
    return AgentConnection(
        NODE, lambda: [server.url], seed, inbox, {subjects.lease_answer(NODE): hear}
    )


class Ends:
    """Both threads; the test's own loop takes no part. The scheduler is at the last broker, and the
    agent has a connection to each of the others, or to the only one."""

    def __init__(self, lease: Lease, *servers: Server) -> None:
        self.servers = servers
        self.server = server = servers[-1]
        self.lease = lease
        self.posted: list[steps.LeaseRenewed] = []
        signer = server.identities["scheduler"]
        self.answers = LeaseAnswerThread(signer, write_state(server))
        self.agent = LeaseThread(
            self._link,
            subjects.lease_request(NODE),
            judge_of(signer),
            lease,
            position=lambda: AT,
            post=self.posted.append,
        )

    def _link(self, hear: MessageHandler) -> list[AgentConnection]:
        return [connection(server, hear) for server in self.servers[:-1] or self.servers]

    def grant(self) -> None:
        self.answers.grant(Authority(CLUSTER, 1, (NodePlace(NODE, AT, 1),)))


def blocking_until(what: str, holds: object) -> None:
    """Block this thread's loop, as a long request does."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[Lease]:
    with Lease.open(tmp_path / "lease") as lease:
        yield lease


@pytest.fixture
def ends(stopped_server: Server, lease: Lease) -> Iterator[Ends]:  # noqa: F811
    stopped_server.start()
    with started(Ends(lease, stopped_server)) as made:
        yield made


@contextlib.contextmanager
def started(made: Ends) -> Iterator[Ends]:
    made.agent.start()
    made.answers.start()
    try:
        yield made
    finally:
        made.answers.stop()
        made.agent.stop()


def test_a_broker_that_stops_costs_no_lease(
    stopped_server: Server,  # noqa: F811
    lease: Lease,
) -> None:
    """Each of the agent's two brokers stops in turn, without closing its connections."""
    third, second, first = joined(stopped_server, 3)
    for server in (first, second, third):
        server.start()
    try:
        with started(Ends(lease, first, second, third)) as ends:
            ends.grant()
            blocking_until("no lease", lambda: lease.expiry_boottime_ns)
            for server in (first, second):
                hang(server, lease)
    finally:
        for server in (first, second):
            server.kill()


def hang(server: Server, lease: Lease) -> None:
    """Stop a broker until a request that was made meanwhile has renewed the lease."""
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    meanwhile = boot_ns() + LEASE_NS
    blocking_until("no renewal", lambda: lease.expiry_boottime_ns > meanwhile)
    server.process.send_signal(signal.SIGCONT)


async def test_a_busy_loop_on_both_sides_delays_no_lease(ends: Ends) -> None:
    """Six rounds take longer than a lease, and this thread's loop does nothing."""
    ends.grant()
    seen = 0
    for _ in range(6):
        blocking_until("no renewal", lambda: ends.lease.expiry_boottime_ns > seen)  # noqa: B023
        seen = ends.lease.expiry_boottime_ns
    assert ends.lease.valid(boot_ns())
    assert [each.at for each in ends.posted[:6]] == [AT] * 6
    assert ends.posted[0].expiry_ns < ends.posted[5].expiry_ns <= seen
    assert ends.agent.counters["lease_renewed"] >= 6


def test_there_is_no_lease_before_somebody_leads(ends: Ends) -> None:
    waiting = ends.answers.answers._waiting
    blocking_until("no request", lambda: waiting)
    assert ends.lease.expiry_boottime_ns == 0
    ends.grant()
    blocking_until("no lease", lambda: ends.lease.valid(boot_ns()))


def test_the_lease_survives_a_broker_that_is_restarted(ends: Ends) -> None:
    ends.grant()
    blocking_until("no lease", lambda: ends.lease.expiry_boottime_ns)
    ends.server.kill()
    ends.server.start()
    before = ends.lease.expiry_boottime_ns
    blocking_until("no renewal after it", lambda: ends.lease.expiry_boottime_ns > before)


def test_a_look_that_fails_is_counted_and_the_thread_looks_on(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends.grant()
    blocking_until("no lease", lambda: ends.lease.expiry_boottime_ns)
    look, failed = ends.agent.look, threading.Event()

    def fails_once(connections: Any) -> None:
        if not failed.is_set():
            failed.set()
            raise ValueError("a defect")
        look(connections)

    monkeypatch.setattr(ends.agent, "look", fails_once)
    blocking_until("no look", failed.is_set)
    meanwhile = boot_ns() + LEASE_NS
    blocking_until("no renewal", lambda: ends.lease.expiry_boottime_ns > meanwhile)
    assert ends.agent.counters["lease_thread_failed"] == 1


def test_a_thread_that_is_stopped_ends(ends: Ends) -> None:
    def lives() -> bool:
        ends.agent.stop()
        return any(thread.name == "lease" for thread in threading.enumerate())

    blocking_until("it goes on", lambda: not lives())


# --- without a broker -----------------------------------------------------------------------------


class Line:
    """Stands for the connection; `sent` are the requests."""

    connected = True

    def __init__(self) -> None:
        self.sent: list[LeaseRequest] = []

    def publish(self, subject: str, data: bytes) -> bool:
        assert subject == subjects.lease_request(NODE)
        self.sent.append(open_request(data, NODE))
        return True


class Quiet:
    """A thread that is not started: the test looks and delivers. The clock is the test's."""

    def __init__(self, signer: Identity, lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
        self.signer = signer
        self.lease = lease
        self.now_ns = boot_ns()
        self.line = Line()
        self.posted: list[steps.LeaseRenewed] = []
        monkeypatch.setattr(lease_thread, "_boot_ns", lambda: self.now_ns)
        subject = subjects.lease_request(NODE)
        judge = judge_of(signer)
        self.thread = LeaseThread(
            self._nobody,
            subject,
            judge,
            lease,
            position=lambda: AT,
            post=self.posted.append,
        )

    def _nobody(self, hear: MessageHandler) -> list[AgentConnection]:
        raise AssertionError("this thread is not started")

    def look(self, wait_ns: int = 10**8) -> None:
        self.now_ns += wait_ns
        self.thread.look(cast(Any, [self.line]))

    def answer(self, request: LeaseRequest) -> None:
        grant = LeaseGrant(NODE, request.instance, request.stamp_ns, request.nonce, AT.seq, AT.hash)
        answer = LeaseAnswer(FORMAT, CLUSTER, AT.term, False, LEASE_MS, 0, (grant,))
        self.thread.handle(Delivery("answer", seal_answer(answer, self.signer), ""))


@pytest.fixture
def quiet(tmp_path: Path, lease: Lease, monkeypatch: pytest.MonkeyPatch) -> Quiet:
    return Quiet(identity.create(tmp_path / "s"), lease, monkeypatch)


def test_the_lease_is_stored_before_the_core_hears_of_it(quiet: Quiet) -> None:
    quiet.look()
    stored: list[int] = []
    quiet.thread._post = lambda renewed: stored.append(quiet.lease.expiry_boottime_ns)
    (request,) = quiet.line.sent
    quiet.answer(request)
    assert stored == [request.stamp_ns + LEASE_NS]


def test_requests_are_sent_when_they_are_due(quiet: Quiet) -> None:
    for _ in range(4):
        quiet.look()
    assert len(quiet.line.sent) == 2  # in a hurry, for there is no lease
    quiet.answer(quiet.line.sent[-1])
    for _ in range(10):
        quiet.look()
    assert len(quiet.line.sent) == 3


def test_a_calm_node_looks_less_often_and_requests_as_early(quiet: Quiet) -> None:
    quiet.thread.busy = lambda: False
    quiet.look()
    quiet.answer(quiet.line.sent[-1])
    rests, requested_ns = [], quiet.now_ns
    while len(quiet.line.sent) == 1:
        rests.append(quiet.thread._rest_s())
        quiet.look(round(rests[-1] * 10**9))
    assert rests[0] == lease_thread.CALM_LOOK_S < lease_thread.GAP_NS / 1e9
    assert quiet.now_ns - requested_ns == pytest.approx(10**9, abs=10**8)
    quiet.thread.busy = lambda: True
    assert quiet.thread._rest_s() == lease_thread.LOOK_S


def test_a_frozen_node_says_so_and_its_core_hears_of_the_freeze(
    quiet: Quiet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lease, "freeze", lambda _: (5, quiet.now_ns - 1))
    quiet.look()
    (request,) = quiet.line.sent
    assert request.frozen
    monkeypatch.setattr(Lease, "freeze", lambda _: (6, request.stamp_ns))
    quiet.answer(request)
    assert (quiet.posted, quiet.lease.expiry_boottime_ns) == ([], 0)
    assert quiet.thread.counters["lease_before_freeze"] == 1
    quiet.look(10**9)
    quiet.answer(quiet.line.sent[-1])
    (renewed,) = quiet.posted
    assert renewed.freeze == Freeze(6, request.stamp_ns)
    assert quiet.lease.expiry_boottime_ns == renewed.expiry_ns


def test_a_renewal_never_shortens_a_lease(quiet: Quiet) -> None:
    later = quiet.now_ns + MOST_NS
    quiet.lease.renew(later)
    quiet.look(-1)
    quiet.answer(quiet.line.sent[0])
    assert quiet.lease.expiry_boottime_ns == later


def test_after_a_gap_the_agent_vouches_for_nothing_before_an_answer(quiet: Quiet) -> None:
    quiet.look()
    quiet.answer(quiet.line.sent[-1])
    quiet.look()
    looked = quiet.lease._view[_AGENT_SEEN]
    assert looked == quiet.now_ns
    quiet.look(lease_thread.GAP_NS + 1)
    quiet.look()
    assert quiet.lease._view[_AGENT_SEEN] == looked
    quiet.look(10**9)
    quiet.answer(quiet.line.sent[-1])
    quiet.look()
    assert quiet.lease._view[_AGENT_SEEN] == quiet.now_ns
