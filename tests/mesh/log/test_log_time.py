# SPDX-License-Identifier: Apache-2.0
"""The log's time while the date is set, by itself and in a whole replica."""

from __future__ import annotations

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.log_time import LogTime
from stoker.mesh.replica import events
from stoker.mesh.wire.command import NodeReply
from stoker.scheduler.nouns import NodeReport, StartJob
from tests.mesh.bench import Bench
from tests.mesh.replica.test_replica_attempts import says

S = 1_000_000_000
HOUR, DAY = 3600, 86_400
NOW = 1_700_000_000 * S


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    return Bench(signer).lead().hello()


def test_it_is_the_date_as_long_as_nobody_steps_it() -> None:
    time = LogTime()
    assert [time.read(NOW + n * S, n * S) for n in (5, 6, 600)] == [
        NOW + 5 * S,
        NOW + 6 * S,
        NOW + 600 * S,
    ]
    assert time.read(NOW + 600 * S + 900_000_000, 600 * S) == NOW + 600 * S + 900_000_000


def test_set_back_it_goes_on_until_the_date_has_caught_up() -> None:
    time = LogTime()
    time.read(NOW, 0)
    back = NOW - HOUR * S
    assert time.read(back + S, S) == NOW + S
    assert time.read(back + HOUR * S, HOUR * S) == NOW + HOUR * S
    assert time.read(NOW + 2 * HOUR * S, 2 * HOUR * S) == NOW + 2 * HOUR * S


def test_set_forward_it_follows_at_twice_the_pace() -> None:
    time = LogTime()
    time.read(NOW, 0)
    forward = NOW + DAY * S
    read = [time.read(forward + n * S, n * S) for n in (1, 2, 100)]
    assert read == [NOW + 2 * S, NOW + 4 * S, NOW + 200 * S]
    assert time.read(forward + DAY * S, DAY * S) == forward + DAY * S


def test_a_new_one_begins_with_the_date_but_not_before_the_last_entry() -> None:
    time = LogTime()
    assert time.read(NOW, 0, NOW + 50) == NOW + 50
    assert time.read(NOW, 5, NOW + 70) == NOW + 75
    assert LogTime().read(NOW, 0) == NOW


# --- in the replica -------------------------------------------------------------------------------


@pytest.mark.parametrize("back", [HOUR, DAY])
def test_a_retry_does_not_wait_for_a_date_that_was_set_back(bench: Bench, back: int) -> None:
    bench.submit("s", retries=1, backoff_s=1)
    says(bench, 1, 1, "running")
    says(bench, 1, 1, "failed", exit_code=3)
    bench.date = -back * S
    for _ in range(15):
        bench.tick()
    assert [a.attempt for a in bench.actions() if isinstance(a, StartJob)] == [1, 2]


def test_a_restart_under_a_date_set_back_goes_on_from_the_last_entry(
    bench: Bench, signer: Identity
) -> None:
    bench.submit("s", retries=1, backoff_s=1)
    says(bench, 1, 1, "running")
    says(bench, 1, 1, "failed", exit_code=3)
    again = Bench(signer, bench.log)
    again.now, again.date = bench.now, -DAY * S
    again.lead()
    for _ in range(15):
        again.tick()
    assert [a.attempt for a in again.actions() if isinstance(a, StartJob)] == [2]
    assert again.replica.state.time_ns > bench.now


def test_a_date_set_forward_does_not_make_a_later_event_due(bench: Bench) -> None:
    bench.submit("s", retries=1, backoff_s=300)
    says(bench, 1, 1, "running")
    says(bench, 1, 1, "failed", exit_code=3)
    bench.date = DAY * S
    for _ in range(140):
        bench.tick(1.0)
    assert [a.attempt for a in bench.actions() if isinstance(a, StartJob)] == [1]
    for _ in range(40):
        bench.tick(1.0)
    assert [a.attempt for a in bench.actions() if isinstance(a, StartJob)] == [1, 2]


def test_entries_never_go_back_in_time(bench: Bench) -> None:
    seen = []
    for date in (0, -HOUR, DAY, -DAY, 3):
        bench.date = date * S
        bench.tick()
        bench.submit(date)
        seen.append(bench.replica.state.book.get(len(seen) + 1).submitted_ns)
    assert seen == sorted(set(seen))


def test_an_older_start_of_an_agent_is_refused_and_the_newer_one_taken(bench: Bench) -> None:
    def hello(incarnation: int) -> NodeReply:
        report = NodeReport("n1", "boot-1", incarnation, 8000, incarnation << 30)
        bench.feed(events.NodeReported(("start", incarnation), report))
        reply: NodeReply = bench.replies["start", incarnation]
        return reply

    assert hello(7).ok
    stale = hello(6)
    assert (stale.ok, stale.code) == (False, "stale")
    assert "newer start" in stale.message
    assert bench.replica.state.book.nodes["n1"].incarnation == 7
    assert hello(8).ok
    assert bench.replica.state.book.nodes["n1"].memory_bytes == 8 << 30
