# SPDX-License-Identifier: Apache-2.0
"""Snapshots and trims: a snapshot and its tail equal the full replay, and the log stays small."""

from __future__ import annotations

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.model_log import ModelLog
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.state import ReplicaState
from stoker.native.errors import Refused
from stoker.scheduler.book import Job
from tests.mesh.bench import CLUSTER, LIMITS, Bench
from tests.mesh.founding import replay


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    return Bench(signer).lead().hello()


def saved(bench: Bench) -> bytes:
    digest = snapshots.encode(bench.saves[-1]).digest
    bench.feed(events.SnapshotSaved(bench.saves[-1].seq, digest))
    return digest


def test_snapshot_and_tail_is_the_full_replay(signer: Identity) -> None:
    bench = Bench(signer, snapshot_entries=10).lead().hello()
    for n in range(40):
        bench.submit(n, key=b"%d" % n, gpu_milli=300 * (n % 2))
        bench.outcome(n + 1, "running")
        if n % 3:
            bench.outcome(n + 1, "failed", exit_code=n)
    assert bench.saves
    taken = bench.saves[0]
    whole = ReplicaState(CLUSTER, bench.replica.state.genesis)
    part = ReplicaState.restore(snapshots.decode(snapshots.encode(taken).data)[0])
    for seq, data in bench.log.read(1):
        for state in (whole, part):
            if seq > state.seen:
                replay(state, seq, data)
    assert whole.digest() == part.digest() == bench.replica.state.digest()


def test_the_log_is_trimmed_to_the_snapshot_before(signer: Identity) -> None:
    bench = Bench(signer, snapshot_entries=10).lead().hello()
    digests: list[bytes] = []
    for n in range(60):
        bench.submit(n)
        bench.outcome(n + 1, "succeeded")
        if len(bench.saves) > len(digests):
            digests.append(saved(bench))
    assert len(digests) >= 3
    assert bench.trims == [snapshot.seq for snapshot in bench.saves[: len(bench.trims)]]
    for at in (-1, -2):
        again = Bench(signer, bench.log, bench.saves[at], digests[at]).lead()
        assert not again.halted
        assert again.replica.state.book.snapshot() == bench.replica.state.book.snapshot()


def test_another_snapshot_than_the_log_names_is_refused(signer: Identity) -> None:
    bench = Bench(signer, snapshot_entries=5).lead().hello()
    for n in range(5):
        bench.submit(n)
    saved(bench)
    again = Bench(signer, bench.log, bench.saves[-1], b"another digest")
    again.tick()
    assert "is not the one that was taken" in again.halted


def test_a_million_jobs_would_not_fill_the_log(signer: Identity) -> None:
    """The log stays within its limit, and the state within its own."""
    log = ModelLog(max_bytes=64 * 1024)
    bench = Bench(signer, log, log_max_bytes=log.max_bytes).lead().hello()
    most = taken = 0
    for n in range(1000):
        bench.submit(n, key=b"%d" % n)
        bench.outcome(n + 1, "running")
        bench.outcome(n + 1, "succeeded", exit_code=0)
        if len(bench.saves) > taken:
            taken = len(bench.saves)
            saved(bench)
        most = max(most, log.size)
    assert most < log.max_bytes * 0.7
    assert len(bench.replica.state.book) <= LIMITS.finished + 1
    assert not bench.replica.counters.get("log_full")


def test_a_full_log_makes_room_by_itself(signer: Identity) -> None:
    log = ModelLog(max_bytes=20_000)
    bench = Bench(signer, log, log_max_bytes=1 << 30).lead().hello()  # the log is full too soon
    n = fill(bench)
    assert n - 1 not in bench.replies
    saved(bench)
    bench.tick(1.0)
    assert bench.replica.status() == "ok"
    assert isinstance(bench.replies[n - 1], Job)


def fill(bench: Bench) -> int:
    n = 0
    while not bench.replica.counters.get("log_full"):
        bench.submit(n)
        n += 1
        assert n < 200
    assert bench.replica.status().startswith("blocked: submits are refused")
    return n


def test_a_full_log_without_a_snapshot_refuses_users_and_recovers(signer: Identity) -> None:
    log = ModelLog(max_bytes=20_000)
    bench = Bench(signer, log, log_max_bytes=1 << 30).lead().hello()
    n = fill(bench)
    bench.feed(events.SnapshotFailed("disk full"))
    bench.tick(2.5)
    assert isinstance(bench.replies[n - 1], Refused)
    assert "nothing was changed" in bench.replies[n - 1].message
    bench.submit("late")
    assert isinstance(bench.replies["late"], Refused)
    bench.tick(2.5)
    saved(bench)
    bench.tick(2.5)
    assert bench.replica.status() == "ok"
    bench.submit("again")
    assert isinstance(bench.replies["again"], Job)
