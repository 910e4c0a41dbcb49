# SPDX-License-Identifier: Apache-2.0
"""The benchmark of one leader: submits through broker, scheduler and log, by a pipelined client.

The scheduler is the product's process with its own broker; it has no node, so no job starts. The
client keeps many submits unanswered and does little else. Owns that each submit is a request of its
own, answered after its entry is durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import nats
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg

from stoker.mesh.broker import users
from stoker.mesh.broker.users import User
from stoker.mesh.client.client import Client, new_key
from stoker.mesh.connection.context import Context
from stoker.mesh.connection.process_connection import key_file
from stoker.mesh.identity import certificate, identity, sealed_json
from stoker.mesh.log import log_record
from stoker.mesh.log.genesis import Genesis
from stoker.mesh.replica.new_cluster import founding
from stoker.mesh.wire import schema, subjects
from stoker.native.errors import StokerError
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import Account
from stoker.tui.bench import brokers
from stoker.tui.bench.brokers import CLUSTER, LISTEN_S, USER, Broker

IN_FLIGHT: Final = 128
"""The most submits that wait for their answer at once."""
WARM_UP: Final = 512
ROUND_S: Final = 120.0
"""The longest time for one round."""
NOBODY: Final = 65_534
_DAEMON = "stoker.mesh.server.scheduler_daemon"
_CPUCLOCK_SCHED: Final = 2
"""The part of a process's clock that counts CPU time, as linux/posix-timers.h has it."""


class LeaderRow(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one leader; CPU times are those of user and system, in us a submit.

    `submits_per_s` is the median of the rounds. `leader_limit_per_s` is what the leader's CPU time
    alone would allow on one core.
    """

    submits: int
    """The submits of all rounds."""
    in_flight: int
    submits_per_s: float
    rounds_per_s: tuple[float, ...]
    leader_cpu_us: float
    broker_cpu_us: float
    client_cpu_us: float
    leader_limit_per_s: float


@contextlib.contextmanager
def running(broker: Broker) -> Iterator[int]:
    """Run a scheduler in this broker's folder; yield its pid."""
    key = identity.load(key_file(broker.state)).public
    write_state(broker, founding(CLUSTER, key, Limits(), accounts(broker)))
    with started(broker) as pid:
        yield pid


@contextlib.contextmanager
def started(broker: Broker) -> Iterator[int]:
    """Run a scheduler whose state was written; yield its pid."""
    argv = [sys.executable, "-m", _DAEMON, "--state", str(broker.state)]
    with (broker.state / "scheduler.log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        yield process.pid
    finally:
        brokers.end(process)


def accounts(broker: Broker) -> dict[str, Account]:
    """Write the table of users, which has the bench's alone; return it as the log has it."""
    public = identity.load(broker.state / "keys" / f"user-{USER}.nk").public
    table = {USER: User(public_key=public, uid=NOBODY, gid=NOBODY)}
    users.save(broker.state / "users.json", table)
    return users.accounts(table)


def write_state(broker: Broker, founds: Genesis) -> None:
    """Write what a scheduler reads at its start; limits of one user are out of the way."""
    state = broker.state
    record = {
        **msgspec.json.decode((state / "cluster.json").read_bytes()),
        "cluster": CLUSTER,
        "node": "bench",
        "scheduler_public_key": identity.load(key_file(state)).public,
    }
    (state / "cluster.json").write_bytes(msgspec.json.encode(record))
    (state / "genesis.json").write_bytes(sealed_json.encode(founds))
    budgets = {"pending_jobs": 1 << 20, "spec_bytes": 1 << 30, "requests_per_s": 1 << 20}
    lines = [f"{name} = {value}\n" for name, value in budgets.items()]
    (state / "config.toml").write_text("[budgets]\n" + "".join(lines))
    log_record.begin(state / "scheduler")


async def measure(broker: Broker, leader: int, rounds: int, submits: int) -> LeaderRow:
    """Measure `rounds` rounds of `submits` through the scheduler whose pid is `leader`."""
    await _served(broker.user)
    client = await nats.connect(
        broker.user.url,
        nkeys_seed=str(broker.user.seed_file),
        pending_size=-1,
        **certificate.connecting(broker.user.certificate),
    )
    pipeline = SubmitPipeline(client)
    try:
        await pipeline.begin()
        await pipeline.run(_requests(WARM_UP))
        return await _rounds(pipeline, (leader, broker.process.pid), rounds, submits)
    finally:
        await client.close()


async def _served(where: Context) -> None:
    """Return as soon as the scheduler has answered a submit."""
    async with Client.open(where, patience_s=LISTEN_S) as client:
        await client.submit(schema.JobRequest(argv=("true",), cwd="/", name="noop"))


async def _rounds(
    pipeline: SubmitPipeline, pids: tuple[int, int], rounds: int, submits: int
) -> LeaderRow:
    rates = []
    used = [0.0, 0.0, 0.0]
    for _ in range(rounds):
        requests = _requests(submits)
        before = _cpu_s(pids)
        began = time.monotonic()
        answers = await pipeline.run(requests)
        rates.append(submits / (time.monotonic() - began))
        after = _cpu_s(pids)
        used = [total + end - start for total, end, start in zip(used, after, before, strict=True)]
        check(answers, submits)
    leader_us, broker_us, client_us = (seconds * 1e6 / (rounds * submits) for seconds in used)
    return LeaderRow(
        submits=rounds * submits,
        in_flight=IN_FLIGHT,
        submits_per_s=statistics.median(rates),
        rounds_per_s=tuple(rates),
        leader_cpu_us=leader_us,
        broker_cpu_us=broker_us,
        client_cpu_us=client_us,
        leader_limit_per_s=1e6 / leader_us,
    )


def check(answers: Sequence[bytes], submits: int) -> None:
    """Raise what a submit was refused with, or StokerError unless each made a job of its own."""
    views = [schema.decode_reply("job", "submit", answer) for answer in answers]
    jobs = {view.job for view in views if isinstance(view, schema.JobView)}
    if len(jobs) != submits:
        raise StokerError(f"{submits} submits made {len(jobs)} jobs")


def _requests(count: int) -> list[bytes]:
    """Return so many encoded submits, each with a key of its own as `Client.submit` makes it."""
    plain = schema.JobRequest(argv=("true",), cwd="/", name="noop")
    return [
        schema.encode(msgspec.structs.replace(plain, idempotency_key=new_key()))
        for _ in range(count)
    ]


def _cpu_s(pids: Sequence[int]) -> list[float]:
    """Return the CPU seconds that these processes and this one have used."""
    return [*map(process_cpu_s, pids), time.process_time()]


def process_cpu_s(pid: int) -> float:
    """Return the CPU seconds of user and system that a process has used; OSError if it is gone.

    The clock is that of clock_getcpuclockid(3), in nanoseconds: proc_pid_stat(5) counts ticks of
    10 ms, in which a scheduler answers a hundred submits.
    """
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)


class SubmitPipeline:
    """Submits on one connection, with at most IN_FLIGHT unanswered."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._inbox = connection.new_inbox()
        self._room = asyncio.Semaphore(IN_FLIGHT)
        self._answers: list[bytes] = []

    async def begin(self) -> None:
        """Subscribe to the answers; call this once before `run`."""
        await self._connection.subscribe(self._inbox, cb=self._answered)

    async def run(self, requests: Sequence[bytes]) -> list[bytes]:
        """Send all requests; return their answers, in the order in which they came."""
        self._answers = []
        subject = subjects.request("job", "submit")
        async with asyncio.timeout(ROUND_S):
            for request in requests:
                await self._room.acquire()
                await self._connection.publish(subject, request, reply=self._inbox)
            for _ in range(IN_FLIGHT):
                await self._room.acquire()
        for _ in range(IN_FLIGHT):
            self._room.release()
        return self._answers

    async def _answered(self, message: Msg) -> None:
        self._answers.append(message.data)
        self._room.release()
