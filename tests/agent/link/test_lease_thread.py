# SPDX-License-Identifier: Apache-2.0
"""The lease follows the scheduler while the loops of agent and scheduler are busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from stoker.agent.jobs import steps
from stoker.agent.link.agent_connection import AgentConnection, MessageHandler
from stoker.agent.link.lease_thread import LeaseThread
from stoker.agent.state.lease import Lease
from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica.authority import LEASE_MS, Authority, Heartbeats
from stoker.mesh.server.heartbeat_thread import HeartbeatThread
from stoker.mesh.wire import subjects
from stoker.mesh.wire.command import HeartbeatJudge, Position
from tests.mesh.conftest import keyring, stopped_server  # noqa: F401  # fixtures
from tests.mesh.nats_server import Server
from tests.mesh.node import write_state

CLUSTER, NODE = "test-cluster", "node1"
AT = Position(1, 7)
PATIENCE_S = 30.0


class Ends:
    """Both threads around one broker; the test's own loop takes no part."""

    def __init__(self, server: Server, lease: Lease) -> None:
        self.server = server
        self.lease = lease
        self.posted: list[steps.HeartbeatReceived] = []
        self.position = AT
        self.beats = HeartbeatThread(server.identities["scheduler"], write_state(server))
        judge = HeartbeatJudge(CLUSTER, NODE, server.identities["scheduler"].verifier)
        self.agent = LeaseThread(
            self._link, judge, lease, lambda: self.position, self.posted.append
        )

    def _link(self, hear: MessageHandler) -> AgentConnection:
        seed = self.server.folder / f"{NODE}.nk"
        inbox = subjects.inbox(f"agent.{NODE}")
        return AgentConnection(
            NODE, lambda: self.server.url, seed, inbox, {subjects.heartbeat(NODE): hear}
        )

    def grant(self) -> None:
        self.beats.grant(Authority(CLUSTER, 1, ((NODE, AT),)))


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
    made = Ends(stopped_server, lease)
    made.agent.start()
    made.beats.start()
    made.grant()
    yield made
    made.beats.stop()
    made.agent.stop()


async def test_a_busy_loop_on_both_sides_delays_no_lease(ends: Ends) -> None:
    """Six rounds take longer than a lease, and this thread's loop does nothing."""
    seen = 0
    for _ in range(6):
        blocking_until("no beat", lambda: ends.lease.expiry_boottime_ns > seen)  # noqa: B023
        seen = ends.lease.expiry_boottime_ns
    assert seen > time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert ends.posted == []
    assert ends.beats.lost == 0


def test_a_node_that_is_behind_is_not_renewed_but_reported(ends: Ends) -> None:
    ends.position = Position(1, 6)
    before = ends.lease.expiry_boottime_ns
    blocking_until("nothing was posted", lambda: ends.posted)
    renewed = ends.agent.counters["lease_renewed"]
    blocking_until("nothing more was posted", lambda: len(ends.posted) > 1)
    assert ends.agent.counters["lease_renewed"] == renewed
    assert before in (0, ends.lease.expiry_boottime_ns)


def test_the_lease_survives_a_broker_that_is_restarted(ends: Ends) -> None:
    blocking_until("no beat", lambda: ends.lease.expiry_boottime_ns)
    ends.server.kill()
    ends.server.start()
    before = ends.lease.expiry_boottime_ns
    blocking_until("no beat after it", lambda: ends.lease.expiry_boottime_ns > before)


# --- without a broker -----------------------------------------------------------------------------


def message(data: bytes) -> Msg:
    return Msg(_client=None, data=data)  # type: ignore[arg-type]


def sealed(signer: Identity) -> bytes:
    beats = Heartbeats(signer)
    beats.grant(Authority(CLUSTER, 1, ((NODE, AT),)), 0)
    ((_, data),) = beats.due(1, 10**9)
    return data


def quiet(lease: Lease, signer: Identity, posted: list[steps.HeartbeatReceived]) -> LeaseThread:
    judge = HeartbeatJudge(CLUSTER, NODE, signer.verifier)

    def nobody(hear: MessageHandler) -> AgentConnection:
        raise AssertionError("this thread is not started")

    return LeaseThread(nobody, judge, lease, lambda: AT, posted.append)


def test_a_frozen_node_is_not_renewed_by_a_beat(
    lease: Lease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer = identity.create(tmp_path / "s")
    posted: list[steps.HeartbeatReceived] = []
    thread = quiet(lease, signer, posted)
    monkeypatch.setattr(Lease, "frozen_since", lambda _: 5)
    data = sealed(signer)
    thread.handle(message(data))
    assert (posted, lease.expiry_boottime_ns) == ([steps.HeartbeatReceived(data, frozen=True)], 0)


def test_a_beat_never_shortens_a_lease(lease: Lease, tmp_path: Path) -> None:
    signer = identity.create(tmp_path / "s")
    thread = quiet(lease, signer, [])
    later = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 100 * LEASE_MS * 1_000_000
    lease.renew(later)
    thread.handle(message(sealed(signer)))
    assert (thread.counters["lease_renewed"], lease.expiry_boottime_ns) == (1, later)


def test_a_thread_that_is_stopped_ends(ends: Ends) -> None:
    def lives() -> bool:
        ends.agent.stop()
        return any(thread.name == "lease" for thread in threading.enumerate())

    blocking_until("it goes on", lambda: not lives())
