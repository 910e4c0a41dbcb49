# SPDX-License-Identifier: Apache-2.0
"""Windows of full tracing in running jobs of a whole node: opened, ended early, refused, heard."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
from product_node import STOKER, LiveNode, live_node, plain_connection, wait_until

from stoker.mesh.client.client import Client
from stoker.mesh.connection import context
from stoker.mesh.connection.context import Context
from stoker.mesh.wire import schema
from stoker.native import paths
from stoker.native.errors import BadRequest, Denied, NotFound, Refused

pytestmark = pytest.mark.needs_root
SWITCHES = """
BPF_HASH(seen, u32, u64);
TRACEPOINT_PROBE(sched, sched_switch) {
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    if (stoker_wanted()) seen.increment(pid);
    return 0;
}
"""
EXAMPLE = Path(__file__).parents[2] / "examples" / "records.py"


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    with live_node() as live:
        wait_until(
            lambda: bool(live.ask(lambda client: client.devices()).devices), "a device is found"
        )
        yield live


def begin(node: LiveNode, **fields: Any) -> int:
    """A job that launches kernels until it is cancelled, traced by the time this returns."""
    program = str(paths.program("stoker-demo-opencl"))
    fields = {"gpu_milli": 100, **fields}
    job = node.submit(program, "--rounds", "1000000", **fields)
    wait_until(lambda: bool(look(node, job)), "a process of the job has a tracer")
    return job


def tracing(node: LiveNode, **fields: Any) -> schema.TracingView:
    return node.ask(lambda client: client.tracing(schema.TracingRequest(**fields)))


def look(node: LiveNode, job: int) -> tuple[schema.TracerView, ...]:
    try:
        return tracing(node, job=job).tracers
    except NotFound:
        return ()


@pytest.fixture(scope="module")
def job(node: LiveNode) -> Iterator[int]:
    number = begin(node)
    yield number
    node.stoker("cancel", str(number))
    node.wait(number)


def slices(path: Path) -> list[int]:
    """Timestamps of what the file shows."""
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    return [packet.timestamp for packet in trace.packet if packet.HasField("track_event")]


def test_a_window_is_full_for_its_time_and_then_as_before(
    node: LiveNode, job: int, tmp_path: Path
) -> None:
    path = tmp_path / "window"
    before_ns = time.monotonic_ns()
    done = node.stoker("trace", str(job), "--for", "500ms", "--file", str(path))
    after_ns = time.monotonic_ns()
    window = tracing(node, job=job).window
    assert window is not None and window.to_ns is not None
    assert window.state == "ready" and window.mode == "full"
    assert window.to_ns - window.from_ns >= 0.5e9
    assert before_ns < window.from_ns and window.to_ns < after_ns
    assert window.records and f"{window.records} records" in done.stdout.decode()
    shown = sorted(slices(path))
    assert len(shown) > window.records
    assert window.from_ns - 1_000_000_000 <= shown[0] and shown[-1] <= window.to_ns + 1_000_000_000
    wait_until(lambda: {each.mode for each in look(node, job)} == {"governed"}, "governed again")


def test_modes_are_switched_in_the_running_job_and_said(node: LiveNode, job: int) -> None:
    for mode in ("dormant", "full", "governed"):
        node.stoker("trace", str(job), "--mode", mode)
        wait_until(lambda m=mode: {each.mode for each in look(node, job)} == {m}, mode)  # type: ignore[misc]
    said = node.stoker("trace", str(job), "--status").stdout.decode()
    assert said.startswith(f"job {job} on ") and "governed, budget 1 % of its time" in said
    assert "opencl governed" in said


def test_ctrl_c_ends_the_window_early_and_keeps_what_there_is(
    node: LiveNode, job: int, tmp_path: Path
) -> None:
    path = tmp_path / "window"
    command = subprocess.Popen(
        [STOKER, "trace", str(job), "--for", "100s", "--file", path],
        env=node.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    wait_until(lambda: window_state(node, job) == "open", "the window is open")
    time.sleep(0.2)
    command.send_signal(signal.SIGINT)
    out, _ = command.communicate(timeout=30)
    assert command.returncode == 0
    assert b"records in" in out and slices(path)
    assert tracing(node, job=job).wanted == "governed"


def window_state(node: LiveNode, job: int) -> str:
    window = tracing(node, job=job).window
    return window.state if window is not None else ""


def test_one_window_of_a_job_at_a_time_and_of_several_jobs_at_once(
    node: LiveNode, job: int
) -> None:
    other = begin(node)
    for number in (job, other):
        tracing(node, job=number, do="open", window=number, seconds=60.0)
    again = tracing(node, job=job, do="open", window=job, seconds=60.0)  # the same one
    assert again.window is not None and again.window.window == job
    with pytest.raises(Refused, match="one window at a time"):
        tracing(node, job=job, do="open", window=job + 1000, seconds=1.0)
    for number in (job, other):
        tracing(node, job=number, do="close", window=number)
        wait_until(lambda n=number: window_state(node, n) == "ready", "ready")  # type: ignore[misc]
    node.stoker("cancel", str(other))


def test_a_job_that_ends_within_its_window_leaves_its_file(node: LiveNode, tmp_path: Path) -> None:
    job = begin(node)
    path = tmp_path / "window"
    command = subprocess.Popen(
        [STOKER, "trace", str(job), "--for", "100s", "--file", path],
        env=node.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    wait_until(lambda: window_state(node, job) == "open", "the window is open")
    time.sleep(0.3)
    node.stoker("cancel", str(job))
    out, err = command.communicate(timeout=60)
    assert command.returncode == 0, err
    assert b"records in" in out and slices(path)
    with pytest.raises(BadRequest, match="is over"):
        tracing(node, job=job, do="open", window=1, seconds=1.0)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"do": "open", "window": 0}, "number"),
        ({"do": "open", "window": 1, "seconds": 601.0}, "601"),
        ({"do": "open", "window": 1, "seconds": 0.0}, "0.01"),
        ({"do": "open", "window": 1, "seconds": float("1e-9")}, "0.01"),
    ],
)
def test_a_window_that_cannot_be_is_refused(
    node: LiveNode, job: int, fields: dict[str, Any], said: str
) -> None:
    before = tracing(node, job=job).window
    with pytest.raises(BadRequest, match=said):
        tracing(node, job=job, **fields)
    assert tracing(node, job=job).window == before


def test_jobs_without_a_tracer_say_why(node: LiveNode) -> None:
    sleeping = node.submit("sleep", "100")
    off = node.submit("sleep", "100", trace="off")
    for number in (sleeping, off):
        node.wait(number, "running")
    with pytest.raises(NotFound, match="no process of job"):
        tracing(node, job=sleeping, do="open", window=1, seconds=1.0)
    with pytest.raises(BadRequest, match="--trace off"):
        tracing(node, job=off)
    node.stoker("cancel", f"{sleeping},{off}")


def test_a_dormant_job_is_woken(node: LiveNode, tmp_path: Path) -> None:
    job = begin(node, trace="dormant")
    assert {each.mode for each in look(node, job)} == {"dormant"}
    assert node.stoker("trace", str(job), "--for", "300ms", "--file", str(tmp_path / "w"))
    window = tracing(node, job=job).window
    assert window is not None and window.records
    wait_until(lambda: {each.mode for each in look(node, job)} == {"dormant"}, "dormant again")
    node.stoker("cancel", str(job))
    view = node.wait(job, trace=True)
    assert sum(row["count"] for row in view.trace["kernels"]) >= window.records // 2
    assert "no launch was counted" in view.trace["absent"]["launches"]


def test_records_come_as_they_are_made(node: LiveNode, job: int) -> None:
    found = context.find(str(node.root))
    done = subprocess.run(
        [sys.executable, EXAMPLE, found.url, found.certificate, found.seed_file, str(job), "0.7"],
        capture_output=True, timeout=60, check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kernels = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()}
    assert {"smooth", "norm", "saxpy"} <= set(kernels)
    assert all(count > 0 for count in kernels.values())
    assert "0 missed, 0 of them not published" in done.stderr
    window = tracing(node, job=job).window
    assert window is not None and window.published >= sum(kernels.values())


def test_a_probe_of_a_job_sees_that_job_and_nobody_else(
    node: LiveNode, job: int, tmp_path: Path
) -> None:
    (source := tmp_path / "probe.c").write_text(SWITCHES)
    done = node.stoker("probe", "run", str(source), "--job", str(job), "--for", "1s", "-o", "jsonl")
    (table,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert {pid for pid, _ in table["rows"]} == {each.pid for each in look(node, job)}


def test_others_neither_steer_a_job_nor_hear_its_records(
    node: LiveNode, job: int, tmp_path: Path
) -> None:
    seed = tmp_path / "bob.nk"
    node.stoker("user", "add", "bob", "--unix-user", "nobody", "--key-out", str(seed))
    os.chown(seed, 0, 0)
    own = context.find(str(node.root))
    bob = Context(own.url, seed, "bob", own.certificate)

    async def steer() -> None:
        async with Client.open(bob) as client:
            await client.tracing(schema.TracingRequest(job=job, do="mode", mode="dormant"))

    with pytest.raises((NotFound, Denied)):
        asyncio.run(steer())
    assert asyncio.run(heard(bob, node, job)) == (0, True)


async def heard(bob: Context, node: LiveNode, job: int) -> tuple[int, bool]:
    """Batches that reach somebody else, and whether the owner got any."""

    theirs: list[Any] = []
    mine: list[Any] = []

    async def keep_theirs(message: Any) -> None:
        theirs.append(message)

    async def keep_mine(message: Any) -> None:
        mine.append(message)

    own = context.find(str(node.root))
    links = [await plain_connection(at) for at in (bob, own)]
    await links[0].subscribe("stoker.v1.records.>", cb=keep_theirs)
    await links[0].subscribe("stoker.v1.records.*.*.*", cb=keep_theirs)
    await links[1].subscribe(f"stoker.v1.records.{own.user}.>", cb=keep_mine)
    for link in links:
        await link.flush()
    async with Client.open(own) as client:
        await client.tracing(
            schema.TracingRequest(job=job, do="open", window=77, seconds=0.3, records=True)
        )
        for _ in range(600):
            await asyncio.sleep(0.1)
            view = await client.tracing(schema.TracingRequest(job=job))
            if view.window is not None and view.window.state == "ready":
                break
    for link in links:
        await link.flush()
        await link.close()
    return len(theirs), bool(mine)
