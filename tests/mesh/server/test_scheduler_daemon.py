# SPDX-License-Identifier: Apache-2.0
"""The scheduler's process behind a real broker: requests of users, and kills that lose nothing."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema
import nats.errors
import pytest

from stoker.mesh.broker import users
from stoker.mesh.broker.users import User
from stoker.mesh.client.client import Client
from stoker.mesh.connection.context import Context
from stoker.mesh.wire import request_signature, schema
from stoker.mesh.wire.schema import JobRequest
from stoker.native.errors import BadRequest, Denied, NotFound, Refused, Unavailable, Unsigned
from tests.fakes import squatter as squatting
from tests.fakes.squatter import squatter, told_nothing
from tests.mesh.fake_agent import HOLD
from tests.mesh.nats_server import Server
from tests.mesh.node import Node


@pytest.fixture
async def fresh(server_stopped_with_admin: Server) -> AsyncIterator[Node]:
    node = Node(server_stopped_with_admin)
    yield node
    await node.stop()


@pytest.fixture
async def node(fresh: Node) -> Node:
    return await fresh.start()


async def ended(node: Node, job: int, user: str = "alice") -> schema.JobView:
    view: schema.JobView = await node.ask(user, "job", "get", job=job, until="ended", wait_s=10.0)
    return view


# --- users ----------------------------------------------------------------------------------------


async def test_plain_json_over_plain_nats(node: Node) -> None:
    """A request of `nats req` suffices, and the replies match docs/schema."""
    documents = {name: json.loads(text) for name, text in schema.documents().items()}
    for verb, text in (
        ("submit", b'{"argv":["true"],"gpu_milli":500}'),
        ("get", b'{"job":1,"until":"ended","wait_s":5}'),
        ("get", b'{"job":"last","trace":true}'),
        ("list", b"{}"),
        ("explain", b"{}"),
        ("cancel", b'{"select":"all"}'),
        ("logs", b'{"job":1}'),
    ):
        data = json.loads(await node.raw("alice", f"stoker.v1.job.{verb}", text))
        jsonschema.validate(data, documents[f"job.{verb}.reply.json"])
    done = await ended(node, 1)
    assert (done.user, done.state, done.exit_code) == ("alice", "succeeded", 0)
    assert done.decision is not None
    assert done.decision.devices[0].id == "gpu-0"
    assert done.times.submitted_ns <= (done.times.started_ns or 0) <= (done.times.ended_ns or 0)


async def test_reads_carry_the_position_in_the_log_that_they_reflect(node: Node) -> None:
    submitted = await node.ask("alice", "job", "submit", argv=("true",))
    assert submitted.position.term == 1
    over = await ended(node, 1)
    assert over.position is not None
    assert over.position.index > submitted.position.index
    for noun in ("job", "node", "queue"):
        reply = await node.ask("alice", noun, "list")
        assert (reply.position.term, reply.position.index) >= (1, over.position.index)
    assert [row.position for row in (await node.ask("alice", "job", "list")).jobs] == [None]
    traced = await node.ask("alice", "job", "get", job=1, trace=True)
    assert traced.position.index >= over.position.index


BAD_SUBMITS = [
    b"",
    b"{",
    b'{"argv":["true"],"gpus":1}',
    b'{"argv":["\xff\xfe"]}',
    b'{"argv":["true"],"gpu_milli":8000}',
    b'{"argv":["true"],"gpu_milli":-1}',
    b'{"argv":["true"],"env":{"A":"' + b"x" * 70_000 + b'"}}',
    b'{"argv":["' + b"x" * 400_000 + b'"]}',
    b'{"argv":' + b"[" * 200_000,
    b'{"argv":["true"],"memory_bytes":' + b"9" * 400 + b"}",
    b'{"argv":["true"],"pids":' + b"9" * 9000 + b"}",
    b'{"argv":["true"],"priority":1e999}',
    b'{"argv":["true"],"time_limit_s":1e999}',
    bytes(range(256)),
]

OTHER_BAD_REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("get", {"job": "first"}),
    ("get", {"job": 1, "wait_s": 31.0}),
    ("get", {"job": 1, "wait_s": -1.0}),
    ("list", {"limit": 0}),
    ("list", {"select": "1;2"}),
    ("cancel", {"select": ""}),
    ("cancel", {"select": "1", "reason": "a\nb"}),
    ("logs", {"job": 1, "offset": -1}),
    ("logs", {"job": 1, "limit": 1 << 30}),
    ("stdin", {"job": 1, "data": b"x"}),
]


async def test_bad_requests_are_answered_and_change_nothing(node: Node) -> None:
    for data in BAD_SUBMITS:
        reply = json.loads(await node.raw("alice", "stoker.v1.job.submit", data))
        assert reply["error"]["code"] == "bad_request", data[:60]
        assert reply["error"]["message"]
    assert (await node.ask("alice", "job", "list")).jobs == ()
    await node.ask("alice", "job", "submit", argv=("true",))
    before = await ended(node, 1)
    for verb, fields in OTHER_BAD_REQUESTS:
        with pytest.raises(BadRequest):
            await node.ask("alice", "job", verb, **fields)
    assert await ended(node, 1) == before
    assert node.process is not None
    assert node.process.poll() is None
    assert "defect" not in node.log()


async def test_users_see_their_own_jobs_and_an_administrator_all(node: Node) -> None:
    await node.ask("alice", "job", "submit", argv=(HOLD,), stdin=True)
    await node.ask("bob", "job", "submit", argv=("true",))
    for verb, fields in (
        ("get", {"job": 1}),
        ("get", {"job": 1, "trace": True}),
        ("logs", {"job": 1}),
        ("stdin", {"job": 1}),
        ("trace", {"job": 1}),
        ("explain", {"job": 1}),
        ("cancel", {"select": "1"}),
    ):
        with pytest.raises(NotFound, match="no job 1"):
            await node.ask("bob", "job", verb, **fields)
    assert [job.job for job in (await node.ask("bob", "job", "list")).jobs] == [2]
    with pytest.raises(Denied):
        await node.ask("bob", "job", "list", user="alice")
    everything = await node.ask("admin", "job", "list")
    assert [(job.job, job.user) for job in everything.jobs] == [(2, "bob"), (1, "alice")]
    assert [j.job for j in (await node.ask("admin", "job", "list", user="bob")).jobs] == [2]
    devices = (await node.ask("bob", "device", "list")).devices
    assert devices[0].id == "gpu-0"
    with pytest.raises(Denied, match="no Unix identity"):
        await node.ask("admin", "job", "submit", argv=("true",))
    stopped = await node.ask("admin", "job", "cancel", select="1", reason="maintenance")
    assert stopped.jobs[0].changed
    assert (await ended(node, 1)).reason == "cancelled on request: maintenance, by admin"


async def test_a_user_that_is_added_is_served_without_a_restart(node: Node) -> None:
    await node.server.add_user("carol")
    with pytest.raises(nats.errors.NoRespondersError):  # the scheduler does not know carol
        await node.ask("carol", "job", "list")
    carol = User(public_key=node.server.identities["carol"].public, uid=1002, gid=1002)
    users.save(node.folder / "users.json", {**node.users, "carol": carol})
    view = await node.persist(
        "carol", "job", "submit", argv=("true",), idempotency_key="carol's first"
    )
    assert view.user == "carol"
    (node.folder / "users.json").write_text("damaged")
    await asyncio.sleep(0.2)
    assert (await node.ask("carol", "job", "list")).jobs[0].job == view.job


async def test_the_service_can_be_discovered(node: Node) -> None:
    nc = await node.server.connect("alice")
    found = json.loads((await nc.request("$SRV.INFO.stoker", b"", timeout=60)).data)
    names = {endpoint["name"] for endpoint in found["endpoints"]}
    assert names == {f"{noun}-{verb}" for noun, verb in schema.ENDPOINTS}


# --- what the node answers ------------------------------------------------------------------------


async def test_output_and_input(node: Node) -> None:
    assert node.agent is not None
    await node.ask("alice", "job", "submit", argv=(HOLD,), stdin=True)
    await node.ask("alice", "job", "get", job=1, until="running", wait_s=5.0)
    node.agent.output[1] = bytes(range(256)) * 10
    first = await node.ask("alice", "job", "logs", job=1, limit=1000)
    rest = await node.ask("alice", "job", "logs", job=1, offset=first.next_offset)
    assert first.data + rest.data == node.agent.output[1]
    assert (first.eof, rest.eof, first.waiting) == (False, True, False)
    sent = await node.ask("alice", "job", "stdin", job=1, data=b"\xff\n", eof=True)
    assert (sent.next_offset, node.agent.stdin[1]) == (2, b"\xff\n")


async def test_a_job_that_waits_has_no_output_yet(node: Node) -> None:
    await node.ask("alice", "job", "submit", argv=(HOLD,), gpu_milli=1000)
    await node.ask("alice", "job", "submit", argv=("true",), gpu_milli=1000)
    view = await node.ask("alice", "job", "logs", job=2, wait_s=0.1)
    assert (view.data, view.waiting, view.eof) == (b"", True, False)
    why = await node.ask("alice", "job", "explain", job=2)
    assert why.state == "pending"
    assert "needs 1 free GPU" in why.summary
    assert why.actions
    await node.ask("alice", "job", "cancel", select="2")
    view = await node.ask("alice", "job", "logs", job=2)
    assert (view.waiting, view.eof) == (False, True)


async def test_traces_are_merged_and_kernels_are_private(node: Node) -> None:
    assert node.agent is not None
    for user in ("alice", "bob"):
        await node.ask(user, "job", "submit", argv=("true",))
    for job, user in ((1, "alice"), (2, "bob")):
        await ended(node, job, user)
    summary = {"kernels": [{"name": "k", "count": 997}], "window": {"from_ns": 1}}
    node.agent.summary[1] = json.dumps(summary).encode()
    row = {"node": "node1", "name": "k", "count": 1, "total_ns": 5}
    node.agent.kernels = json.dumps([{"job": 1, **row}, {"job": 2, **row}]).encode()
    view = await node.ask("alice", "job", "get", job=1, trace=True)
    assert view.trace == summary
    view = await node.ask("bob", "job", "get", job=2, trace=True)
    assert (view.trace, view.trace_absent) == (None, "nothing was traced")
    node.agent.summary[1] = b"{ not json"
    view = await node.ask("alice", "job", "get", job=1, trace=True)
    assert "not JSON" in view.trace_absent
    rows = (await node.ask("alice", "kernel", "list")).kernels
    assert [(kernel.job, kernel.count) for kernel in rows] == [(1, 1)]
    assert len((await node.ask("admin", "kernel", "list")).kernels) == 2
    node.agent.kernels = b"[1]"
    assert "unreadable" in (await node.ask("alice", "kernel", "list")).absent["node1"]


async def test_without_its_agent_a_job_says_so(fresh: Node) -> None:
    node = await fresh.start()
    assert node.agent is not None
    await node.ask("alice", "job", "submit", argv=("true",))
    await ended(node, 1)
    await node.agent.nc.close()
    with pytest.raises(Unavailable, match="agent of node node1 is not there"):
        await node.ask("alice", "job", "logs", job=1)
    view = await node.ask("alice", "job", "get", job=1, trace=True)
    assert "not there" in view.trace_absent


async def test_nodes_and_devices_show_their_latest_sample(node: Node) -> None:
    assert node.agent is not None
    await node.agent.observe(7)
    for _ in range(500):
        if (await node.ask("alice", "node", "list")).nodes[0].observation == 7:
            break
    await node.ask("alice", "job", "submit", argv=(HOLD,), gpu_milli=300)
    (row,) = (await node.ask("alice", "node", "list")).nodes
    assert (row.state, row.observation, row.load_milli, row.jobs) == ("ready", 7, 250, 1)
    (device,) = (await node.ask("alice", "device", "list")).devices
    assert (device.granted_milli, device.jobs, device.busy_ratio) == (300, (1,), 0.5)
    assert (device.power_w, device.absent) == (None, {"power_w": "no sensor"})
    assert (await node.ask("bob", "device", "list")).devices[0].jobs == ()
    job = await node.ask("alice", "job", "get", job=1)
    assert job.decision.observations == ()  # this placement reads no observation


async def test_a_long_list_comes_in_pages(node: Node) -> None:
    await asyncio.gather(
        *(node.ask("alice", "job", "submit", argv=("true", "x" * 3000)) for _ in range(120))
    )
    found: list[int] = []
    before = None
    while True:
        page = await node.ask("alice", "job", "list", limit=50, before=before)
        found += [job.job for job in page.jobs]
        assert all(job.spec.short and job.spec.env is None for job in page.jobs)
        before = page.next
        if before is None:
            break
    assert found == list(range(120, 0, -1))


# --- what kills do not lose -----------------------------------------------------------------------


async def submit_all(node: Node, keys: list[str], kill: Any) -> dict[str, int]:
    """Submit under keys until each has its job, while a process is killed."""
    jobs: dict[str, int] = {}

    async def one(key: str) -> None:
        view = await node.persist("alice", "job", "submit", argv=("true", key), idempotency_key=key)
        jobs[key] = view.job

    async def many(part: list[str]) -> None:
        for key in part:
            await one(key)

    killing = asyncio.ensure_future(kill())
    await asyncio.gather(*(many(keys[n::8]) for n in range(8)))
    await killing
    return jobs


async def check_all(node: Node, jobs: dict[str, int]) -> None:
    """Check that every accepted job succeeded and ran once, and that keys still name their jobs."""
    assert node.agent is not None
    assert len(set(jobs.values())) == len(jobs)
    for key, job in jobs.items():
        view = await node.persist("alice", "job", "get", job=job, until="ended", wait_s=2.0)
        assert (view.state, view.spec.argv[1]) == ("succeeded", key)
    assert max(node.agent.started.values()) == 1
    assert len(node.agent.started) == len(jobs)
    again = await node.ask("alice", "job", "submit", argv=("true", "k0"), idempotency_key="k0")
    assert again.job == jobs["k0"]


async def test_kill_9_of_the_scheduler_loses_nothing(node: Node) -> None:
    async def kill() -> None:
        for _ in range(3):
            await asyncio.sleep(0.25)
            node.kill_scheduler()
            node.start_scheduler()
            await asyncio.sleep(0.6)

    jobs = await submit_all(node, [f"k{n}" for n in range(400)], kill)
    await check_all(node, jobs)


async def test_kill_9_of_the_broker_loses_nothing(node: Node) -> None:
    async def kill() -> None:
        for _ in range(3):
            await asyncio.sleep(0.3)
            node.server.kill()
            node.server.start()

    jobs = await submit_all(node, [f"k{n}" for n in range(400)], kill)
    await check_all(node, jobs)
    assert node.process is not None
    assert node.process.poll() is None


async def test_an_ordered_end_is_quick_and_clean(node: Node) -> None:
    await node.ask("alice", "job", "submit", argv=("true",))
    assert node.end_scheduler() == 0
    assert "STOPPING=1" in node.listen()
    node.start_scheduler()
    view = await node.persist("alice", "job", "get", job=1)
    assert view.job == 1


async def test_snapshots_bound_the_log_and_a_damaged_one_gives_way(fresh: Node) -> None:
    node = await fresh.start()
    for n in range(3):
        await submit_large(node, n)
        wanted = n + 1
        await node.until(lambda wanted=wanted: len(snapshots(node)) >= min(wanted, 2))
    node.kill_scheduler()
    newest = snapshots(node)[-1]
    newest.write_bytes(newest.read_bytes()[:1000])
    node.start_scheduler()
    view = await node.persist("alice", "job", "get", job=180)
    assert view.spec.argv[0] == "true"
    assert "snapshot damaged" in node.log()


async def submit_large(node: Node, part: int) -> None:
    """Submit 60 jobs of 30 kB each, also while the log is trimmed for them."""
    await asyncio.gather(
        *(
            node.persist(
                "alice",
                "job",
                "submit",
                argv=("true", "x" * 30_000),
                idempotency_key=f"{part}-{n}",
            )
            for n in range(60)
        )
    )


def snapshots(node: Node) -> list[Path]:
    return sorted((node.folder / "scheduler").glob("*.snapshot"))


async def test_no_good_snapshot_is_a_corrupt_state(fresh: Node) -> None:
    node = await fresh.start()
    for n in range(4):
        await submit_large(node, n)
    await node.until(lambda: "log trimmed" in node.log())
    node.kill_scheduler()
    for file in snapshots(node):
        file.write_bytes(b"")
    node.start_scheduler()
    assert node.process is not None
    assert await asyncio.to_thread(node.process.wait, 10) == 3
    assert "is missing" in node.log()


@pytest.mark.parametrize("what", ["cluster.json", "keys/scheduler.nk"])
def test_a_state_folder_that_is_not_whole_is_named(tmp_path: Path, what: str) -> None:
    (tmp_path / "keys").mkdir()
    if what != "cluster.json":
        record = {"cluster": "c", "node": "n", "scheduler_public_key": "U", "port": 1}
        (tmp_path / "cluster.json").write_text(json.dumps(record))
    done = subprocess.run(
        [sys.executable, "-m", "stoker.mesh.server.scheduler_daemon", "--state", str(tmp_path)],
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert done.returncode in (1, 3)
    assert Path(what).name.encode() in done.stderr


async def test_the_scheduler_waits_for_a_late_broker(fresh: Node) -> None:
    fresh.start_scheduler()
    await asyncio.sleep(0.8)
    fresh.server.start()
    await fresh.until(lambda: "READY=1" in fresh.listen())
    assert isinstance(await fresh.ask("alice", "job", "list"), schema.JobList)


async def test_where_signatures_are_demanded_plain_nats_changes_nothing(fresh: Node) -> None:
    (fresh.folder / "config.toml").write_text("[requests]\nrequire_signature = true\n")
    await fresh.start()
    with pytest.raises(Unsigned, match=r"job\.submit must be signed by its user's key here"):
        await fresh.ask("alice", "job", "submit", argv=("true",))
    assert (await fresh.ask("alice", "job", "list")).jobs == ()
    where = Context(
        fresh.server.url,
        fresh.folder / "alice.nk",
        "alice",
        Path(fresh.server.settings.certificate_file),
    )
    async with Client.open(where) as client:
        job = (await client.submit(JobRequest(argv=("true",)))).job
        assert (await client.wait(job)).state == "succeeded"


async def test_a_signature_that_is_not_the_users_is_refused(node: Node) -> None:
    """A wrong signature is refused even where none is demanded."""
    data = b'{"argv":["true"]}'
    headers = request_signature.headers(node.server.identities["bob"], "stoker.v1.job.submit", data)
    alice = await node.server.connect("alice")
    reply = await alice.request("stoker.v1.job.submit", data, timeout=60, headers=headers)
    assert json.loads(reply.data)["error"]["code"] == "denied"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
async def test_a_broker_of_another_user_gets_no_scheduler(fresh: Node) -> None:
    """A program that took the port greets and receives no key, no signature and no entry."""
    await fresh.start()
    with squatter(fresh.server.settings.port) as stranger:
        fresh.server.kill()
        stranger.wait_bound()
        await fresh.until(lambda: fresh.log().count(f"belongs to uid {squatting.UID}") >= 2)
        # The scheduler sent nothing; the test's own users began a handshake that failed.
        await fresh.until(lambda: b"" in stranger.heard())
        assert all(told_nothing(said) for said in stranger.heard()), stranger.heard()
    fresh.server.start()
    job = (await fresh.persist("alice", "job", "submit", argv=("true",), idempotency_key="k")).job
    assert (await ended(fresh, job)).state == "succeeded"


def test_the_largest_request_is_below_the_brokers_limit() -> None:
    request = JobRequest(argv=("é" * 65_535,), env={"A": "é" * 32_766})
    assert len(schema.encode(request)) < 512 * 1024
    assert nats.errors.MaxPayloadError is not None
    assert Refused.code == "refused"


async def test_devices_are_looked_at_through_their_node(node: Node) -> None:
    assert node.agent is not None
    row = {"pid": 7, "name": "secret", "memory_bytes": 5}
    fields = {"power_w": {"absent": "no sensor"}, "processes": {"value": [row]}}
    view = {"node": "node1", "device": "pocl-0", "t_ns": 1, "state": "ok", "fields": fields}
    node.agent.looks["readings"] = json.dumps(view).encode()
    device = (await node.ask("alice", "device", "list")).devices[0].id
    asked = {"node": "node1", "device": device}
    found = await node.ask("alice", "device", "readings", **asked)
    assert found.fields["power_w"].absent == "no sensor"
    assert found.fields["processes"].value == [{**row, "name": None}]
    found = await node.ask("admin", "device", "readings", **asked)
    assert found.fields["processes"].value == [row]
    with pytest.raises(NotFound, match="no node"):
        await node.ask("alice", "node", "topology", node="elsewhere")
    with pytest.raises(NotFound, match="no device"):
        await node.ask("alice", "device", "readings", node="node1", device="x")
    with pytest.raises(BadRequest, match="histories"):
        await node.ask("alice", "device", "readings", **asked, history=("a",) * 9)
    node.agent.looks["topology"] = b"[]"
    with pytest.raises(Unavailable, match="cannot be read"):
        await node.ask("alice", "node", "topology", node="node1")
