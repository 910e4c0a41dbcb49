# SPDX-License-Identifier: Apache-2.0
"""Jobs of a whole node whose scheduler is killed, whose log takes nothing, whose state is lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal

import pytest
from nats.aio.client import Client as Connection
from product_node import LiveNode, live_node, wait_until

from stoker.agent.state.lease import Lease
from stoker.agent.state.state_folder import load
from stoker.agent.supervise import pids
from stoker.mesh.connection import context
from stoker.mesh.connection.requests import Requests
from stoker.mesh.identity import certificate
from stoker.mesh.log.jetstream_log import JetStreamLog
from stoker.mesh.replica.authority import LEASE_MS
from stoker.mesh.wire import subjects

pytestmark = pytest.mark.needs_root

KILLS = 3
LINES = 2 * LEASE_MS // 100
"""Lines that a job writes in two leases at ten lines a second."""


def seal_log(node: LiveNode) -> None:
    """Seal the log by the scheduler's own key: the broker stays up and refuses every append."""

    async def seal() -> None:
        nc = Connection()
        found = context.find(str(node.root))
        await nc.connect(
            found.url,
            **certificate.connecting(node.state.broker_certificate),
            nkeys_seed=str(node.state.key("scheduler")),
            inbox_prefix=subjects.inbox("scheduler").encode(),
        )
        await JetStreamLog(Requests(nc), load(node.state).cluster).seal()
        await nc.close()

    asyncio.run(seal())


def test_no_death_of_the_scheduler_and_no_log_outage_freezes_a_job() -> None:
    with live_node() as node, Lease.open(node.state.run / "lease") as lease:
        job = node.submit("sh", "-c", "while :; do echo x; sleep 0.1; done")
        node.wait(job, "running")
        begun = lease.freezes  # before the first lease everything is frozen
        for _ in range(KILLS):
            node.wait_for_new("scheduler", node.kill("scheduler"))
            node.run("true")  # the new one leads, and its node has read what it wants
        assert lease.freezes == begun
        seal_log(node)
        submitted = node.stoker("submit", "true", check=False)
        assert submitted.returncode != 0
        path = node.state.agent / "jobs" / str(job) / "out"
        written = path.stat().st_size
        wait_until(lambda: path.stat().st_size >= written + 2 * LINES, "the job runs on", 60)
        assert lease.freezes == begun


def test_a_scheduler_that_stands_still_for_longer_than_a_lease_freezes_jobs_until_it_goes_on() -> (
    None
):
    with live_node() as node, Lease.open(node.state.run / "lease") as lease:
        job = node.submit("sh", "-c", "while :; do echo x; sleep 0.1; done")
        node.wait(job, "running")
        begun = lease.freezes
        scheduler = pids.find(node.state)["scheduler"].pid
        os.kill(scheduler, signal.SIGSTOP)
        wait_until(lambda: lease.frozen_since() is not None, "the jobs freeze", 60)
        os.kill(scheduler, signal.SIGCONT)
        wait_until(lambda: lease.frozen_since() is None, "the jobs go on", 60)
        path = node.state.agent / "jobs" / str(job) / "out"
        written = path.stat().st_size
        wait_until(lambda: path.stat().st_size > written, "the job writes again", 60)
        assert lease.freezes == begun + 1
        assert node.ask(lambda client: client.get(job)).state == "running"


def test_what_ran_under_a_lost_agent_state_is_lost_and_its_device_free() -> None:
    with live_node() as node:
        job = node.submit("sleep", "1000", gpu_milli=1000)
        node.wait(job, "running")
        for process in pids.find(node.state).values():
            os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: not pids.find(node.state), "all are dead")
        for path in node.state.agent.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        node.stoker("up")
        view = node.wait(job)
        gone = "node evicted: an agent without the records of this one took its place"
        assert (view.state, view.reason) == ("lost", gone)
        assert node.run("true", gpu_milli=1000).state == "succeeded"
