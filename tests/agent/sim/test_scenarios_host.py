# SPDX-License-Identifier: Apache-2.0
"""Stories of what is beside the simulated cluster: lease files, cgroups, brokers, readers of a log.

Each runs the smallest shipped part that has the rule, since the simulator has a model in its place.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stoker.agent.jobs import job_launch
from stoker.agent.jobs.job_launch import Home, JobPlace
from stoker.agent.state.job_freezer import FREEZE, JobFreezer
from stoker.agent.state.lease import Lease
from stoker.mesh.connection.requests import Requests
from stoker.mesh.identity import identity
from stoker.mesh.log.jetstream_log import JetStreamLog
from stoker.mesh.server import status_watch
from stoker.mesh.server.scheduler_options import SchedulerOptions
from stoker.mesh.server.status_watch import StatusWatch
from stoker.scheduler.nouns import Decision, JobSpec, Owner, StartJob
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.scenario import Unplayable, scenario
from tests.mesh.replica_cluster import Cluster

LEASE = "stoker.agent.state.lease"
WATCH = "stoker.mesh.server.status_watch"
SECOND = 1_000_000_000
BOOT_1, BOOT_2 = "0d1f0d54-0000-4000-8000-000000000001", "0d1f0d54-0000-4000-8000-000000000002"

# --- brokers and readers --------------------------------------------------------------------------


class Watched:
    """Three schedulers with their status; `requests` are those for a restart of a broker."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        signers = [identity.create(folder / f"{number}.nk") for number in range(3)]
        self.cluster = cluster = Cluster(signers)
        self.requests: list[str] = []
        said: list[str] = []
        notify = SimpleNamespace(status=said.append, ready=said.append, alive=lambda: None)
        patch.setattr(status_watch, "notify", notify)
        patch.setattr(status_watch, "time", SimpleNamespace(monotonic=lambda: cluster.now / 1e9))
        options = SchedulerOptions(folder, disk_reserve_bytes=0)
        self._watches = [StatusWatch(each, options) for each in cluster.replicas.values()]
        self._said = said
        cluster.settle()

    def pass_time(self, seconds: int) -> None:
        """Pass time with a look at every status once a second."""
        for _ in range(seconds):
            self.cluster.pass_time(1)
            for watch in self._watches:
                watch.look()
        self.requests = [text for text in self._said if text.startswith("broker-restart")]

    @property
    def statuses(self) -> set[str]:
        """The status of every scheduler."""
        return {each.status() for each in self.cluster.replicas.values()}


@contextmanager
def watched() -> Iterator[Watched]:
    """Yield three schedulers that lead and follow."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        yield Watched(Path(folder), patch)


@scenario(
    14,
    "No broker is restarted while the log's servers may be electing a leader, which takes up to"
    " 16 s.",
    Mutant(
        "restart-in-election", WATCH, "StatusWatch._patience_s",
        "return BROKER_STUCK_S if self._replica.right.alone else BROKERS_STUCK_S",
        "return BROKER_STUCK_S",
        "schedulers of a cluster wait longer than an election of the log",
    ),
)  # fmt: skip
def test_nobody_restarts_a_broker_in_an_election_of_the_log() -> None:
    with watched() as stage:
        cluster = stage.cluster
        leader = cluster.settle()
        cluster.log_down = set(cluster.replicas)
        cluster.submit(leader, "job")
        stage.pass_time(16)
        if not any(status.startswith("blocked") for status in stage.statuses):
            raise Unplayable("no scheduler waits for the log")
        cluster.log_down = set()
        cluster.settle()
        stage.pass_time(5)
        assert stage.requests == [], "no election is disturbed"
        assert stage.statuses == {"ok"}


@scenario(
    14,
    "A scheduler that follows again is not blocked any more, so that nobody restarts its broker.",
    Mutant(
        "blocked-for-ever", "stoker.mesh.replica.replica", "Replica.step_down",
        "self._outage.left()", "pass",
        "the outages of a leader end when it follows",
    ),
)  # fmt: skip
def test_a_leader_that_was_deposed_in_an_outage_of_the_log_is_well_again() -> None:
    with watched() as stage:
        cluster = stage.cluster
        leader = cluster.settle()
        cluster.log_down = {leader}
        cluster.submit(leader, "job")
        stage.pass_time(2)
        cluster.cut = {leader}
        stage.pass_time(6)
        cluster.cut = cluster.log_down = set()
        if cluster.settle() == leader:
            raise Unplayable("the same scheduler leads again")
        stage.pass_time(60)
        assert stage.statuses == {"ok"}, "it follows and says so"
        assert stage.requests == [], "its broker is left alone"


class ConsumerNames:
    """The consumers of a stream by name, as its server makes and deletes them."""

    def __init__(self) -> None:
        self.connection = None
        self.names: set[str] = set()

    async def request(self, subject: str, data: bytes, timeout_s: float) -> bytes:
        """Carry out one call."""
        verb, name = subject.split(".")[3], subject.rpartition(".")[2]
        if verb == "CREATE":
            self.names.add(name)
        else:
            self.names.discard(name)
        return b"{}"


@scenario(
    17,
    "Each scheduler reads the log through consumers of its own name, so that none deletes those of"
    " another.",
    Mutant(
        "one-reader-name", "stoker.mesh.log.jetstream_log", "JetStreamLog._consumer",
        'name = f"{self._reader}-{self._readers}"', 'name = f"read-{self._readers}"',
        "the names of consumers differ between schedulers",
    ),
)  # fmt: skip
def test_two_schedulers_read_the_log_at_once() -> None:
    server = ConsumerNames()
    for number in (1, 2):
        log = JetStreamLog(cast(Requests, server), "cluster", reader=f"read-{number}")
        asyncio.run(log._consumer(1))
    assert len(server.names) == 2, "the first reader still has its consumer"


# --- the lease file -------------------------------------------------------------------------------


@contextmanager
def lease_file() -> Iterator[Path]:
    """Yield the path of a lease file of the first boot, under which jobs may run until 9 s."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "lease"
        with Lease.open(path, BOOT_1) as lease:
            lease.renew(9 * SECOND)
            assert lease.valid(5 * SECOND)
        yield path


@scenario(
    27,
    "The lease file belongs to one boot: in another one there is no lease.",
    Mutant(
        "any-boot", LEASE, "Lease._bind",
        "if [view[_BOOT], view[_BOOT + 1]] == words:", "if True:",
        "the times of another boot mean nothing",
    ),
)  # fmt: skip
def test_a_lease_of_the_last_boot_is_none() -> None:
    with lease_file() as path, Lease.open(path, BOOT_2) as lease:
        assert not lease.valid(5 * SECOND)


@scenario(
    27,
    "A lease that was half stored is the earlier of two leases, and never a longer one.",
    Mutant(
        "half-stored", LEASE, "Lease.expiry_boottime_ns",
        "min(self._view[_EXPIRY], self._view[_EXPIRY_CHECK] ^ _U64)", "self._view[_EXPIRY]",
        "both stores of an expiry count",
    ),
)  # fmt: skip
def test_a_store_that_was_cut_off_lengthens_nothing() -> None:
    with lease_file() as path:
        data = bytearray(path.read_bytes())
        struct.pack_into("<Q", data, 32, 13 * SECOND)
        path.write_bytes(data)
        with Lease.open(path, BOOT_1) as lease:
            assert lease.valid(8 * SECOND) and not lease.valid(10 * SECOND)


@scenario(
    27,
    "A lease that ends later than any lease can is none.",
    Mutant(
        "endless-lease", LEASE, "Lease.valid",
        "<= MOST_NS", "",
        "no lease is longer than the longest one",
    ),
)  # fmt: skip
def test_a_lease_that_nobody_can_have_given_is_none() -> None:
    with lease_file() as path, Lease.open(path, BOOT_1) as lease:
        lease.renew(86_400 * SECOND)
        assert not lease.valid(5 * SECOND)


# --- what is frozen, and by whom ------------------------------------------------------------------


def is_fenced(**options: Any) -> bool:
    """Return whether the spawner is told to start such a job in the group that is frozen."""
    decision = Decision(1, "n1", (), "", 1)
    start = StartJob(1, 1, 0, 0, decision, Owner("ann", 1000, 1000), JobSpec(("true",), **options))
    place = JobPlace("n1", "/state/jobs", "/dev/shm/stoker-0", "/lib/libstoker-opencl.so")
    return job_launch.launch(start, (), Home("/home/ann", "/bin/sh"), place, False).fenced


@scenario(
    28,
    "Every job that may run once only, and every job with a whole device, is in the one group that"
    " is frozen, also if it shares its device.",
    Mutant(
        "shared-runs-on", "stoker.scheduler.nouns", "JobSpec.must_fence",
        "not self.may_run_again or self.gpu_milli >= MILLI", "self.gpu_milli >= MILLI",
        "jobs that may run once only are frozen",
    ),
    Mutant(
        "once-alone", "stoker.scheduler.nouns", "JobSpec.must_fence",
        "not self.may_run_again or self.gpu_milli >= MILLI", "not self.may_run_again",
        "jobs with a whole device are frozen",
    ),
)  # fmt: skip
def test_a_job_on_a_shared_device_that_may_run_once_is_frozen_with_the_others() -> None:
    assert is_fenced(gpu_milli=250), "it may run once only"
    assert is_fenced(gpu_milli=1000, retries=3), "no other job may run on its device beside it"
    assert not is_fenced(gpu_milli=250, retries=3)


@scenario(
    30,
    "The agent freezes the jobs itself when the lease has ended and no watchdog looks.",
    Mutant(
        "nobody-else-freezes", "stoker.agent.state.job_freezer", "JobFreezer.look",
        "if not self._lease.watchdog_stale(now_ns):", "if True:",
        "the agent freezes where no watchdog does",
    ),
)  # fmt: skip
def test_jobs_are_frozen_after_the_watchdog_died() -> None:
    with lease_file() as path, Lease.open(path, BOOT_1) as lease:
        group = path.parent
        (group / FREEZE).write_text("0")
        freezer = JobFreezer(group, lease)
        assert not freezer.look(5 * SECOND), "jobs run under their lease"
        freezer.look(10 * SECOND)
        assert (group / FREEZE).read_text() == "1", "nothing runs on after it"
