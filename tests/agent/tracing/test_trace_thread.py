# SPDX-License-Identifier: Apache-2.0
"""Real OpenCL programs on PoCL, traced by the agent: exact counts are on disk before the end is
reported, even if the agent is killed while the job runs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fakes.one_node import OneNode

from stoker.mesh.wire.queries import TraceQuery
from stoker.native import paths
from stoker.native.errors import NotFound
from stoker.scheduler.nouns import DeviceShare, JobSpec

Key = tuple[int, int]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OneNode]:
    async with OneNode(tmp_path) as made:
        await made.scheduler.until(lambda: bool(made.scheduler.reports))
        assert [device.id for device in made.scheduler.reports[-1].devices] == ["pocl-0"]
        yield made


async def start(node: OneNode, *arguments: str, gpu: int = 1000, trace: Any = "full") -> Key:
    program = str(paths.program("stoker-demo-opencl"))
    spec = JobSpec((program, *arguments), gpu_milli=gpu, trace=trace)
    shares = (DeviceShare(0, gpu),) if gpu else ()
    (key,) = await node.scheduler.submit(spec, owner=node.owner, shares=shares)
    return key


async def summary(node: OneNode, key: Key) -> dict[str, Any]:
    reply = await node.scheduler.ask("trace", TraceQuery("summary", *key))
    return dict(json.loads(reply.data))


def counts(summary: dict[str, Any]) -> dict[str, int]:
    return {row["name"]: row["count"] for row in summary["kernels"]}


async def test_a_job_that_holds_a_device_has_its_trace_when_its_end_is_reported(
    node: OneNode,
) -> None:
    key = await start(node, "--rounds", "3")
    (outcome,) = await node.scheduler.until_ended(key)
    assert outcome.state == "succeeded"
    path = node.state.agent / "jobs" / str(key[0]) / "trace.json"
    assert path.exists(), node.log()  # at this very moment
    found = await summary(node, key)
    assert counts(found) == {"smooth": 12, "norm": 3, "saxpy": 27}
    assert {name: count for name, count in found["loss"].items() if count} == {}
    if os.geteuid() == 0:
        assert found["pressure"]["minor_faults"] > 0  # the probes were there from its start
        assert found["pressure"]["absent"]["device_calls"]
        assert "host" not in found["absent"]  # a probe that the job does not need is no absence
        assert "waits" not in found["absent"]
    (device,) = found["devices"]
    assert device["id"] == "pocl-0"
    assert sum(device["causes"].values()) == device["window_ns"]
    assert not (node.state.shm / str(key[0])).exists()


async def test_the_timeline_comes_in_pieces_and_is_whole(node: OneNode) -> None:
    key = await start(node, "--rounds", "3")
    await node.scheduler.until_ended(key)
    data, size = b"", None
    while size is None or len(data) < size:
        query = TraceQuery("perfetto", *key, offset=len(data), limit=50_000)
        reply = await node.scheduler.ask("trace", query)
        data, size = data + reply.data, reply.size
    assert reply.eof
    assert data == (node.state.agent / "jobs" / str(key[0]) / "trace.perfetto").read_bytes()


async def test_a_job_without_a_grant_is_traced_from_its_first_call(node: OneNode) -> None:
    key = await start(node, "--rounds", "3", gpu=0, trace="governed")
    await node.scheduler.until_ended(key)
    assert counts(await summary(node, key)) == {"smooth": 12, "norm": 3, "saxpy": 27}


async def test_running_kernels_and_the_busy_device_are_seen(node: OneNode) -> None:
    key = await start(node, "--rounds", "400")
    while True:
        reply = await node.scheduler.ask("trace", TraceQuery("kernels"))
        rows = json.loads(reply.data)
        if rows:
            break
        await asyncio.sleep(0.05)
    assert {row["job"] for row in rows} == {key[0]}
    live = await node.scheduler.ask("trace", TraceQuery("perfetto", *key))
    assert live.data

    def busy() -> bool:
        samples = [s for o in node.scheduler.observations for s in o.devices]
        return any(sample.busy_ratio for sample in samples)

    await node.scheduler.until(busy)
    await node.scheduler.stop(key)
    (outcome,) = await node.scheduler.until_ended(key)
    assert outcome.state == "cancelled"
    assert counts(await summary(node, key))["norm"] >= 1


async def test_the_agent_killed_while_kernels_run_loses_no_count(node: OneNode) -> None:
    key = await start(node, "--rounds", "120")
    await node.scheduler.until(lambda: any(o.state == "running" for o in node.scheduler.told))
    for _ in range(2):
        await asyncio.sleep(0.5)
        await asyncio.to_thread(node.kill, "agent")
        node.start_agent()
    (outcome,) = await node.scheduler.until_ended(key)
    assert outcome.state == "succeeded"
    found = await summary(node, key)
    made = {"smooth": 480, "norm": 120, "saxpy": 1080}
    if not found["coverage"]["dormant_ns"]:
        assert counts(found) == made
    else:  # the new agent came after the tracer's lease was over: said, and nothing invented
        assert all(0 < counts(found)[name] <= made[name] for name in made)
        assert sum(device["causes"]["not_observed_ns"] for device in found["devices"])
    assert found["records"]["dropped"] == 0
    if os.geteuid() == 0:
        assert "the agent started later" in found["absent"]["host before the probes"]


async def test_a_full_trace_says_where_threads_waited(node: OneNode) -> None:
    if os.geteuid():
        pytest.skip("not root: BPF programs cannot be loaded")
    naps = "for i in 1 2 3 4 5 6 7; do sleep 0.3; done"  # the first may be under way already
    spec = JobSpec(("/bin/sh", "-c", naps), gpu_milli=500, trace="full")
    (key,) = await node.scheduler.submit(spec, owner=node.owner, shares=(DeviceShare(0, 500),))
    await node.scheduler.until_ended(key)
    waits = (await summary(node, key))["waits"]
    slept = [wait for wait in waits if any("nanosleep" in frame for frame in wait["kernel"])]
    assert slept
    assert slept[0]["longest_ns"] >= 300_000_000
    assert slept[0]["user"]


async def test_a_job_that_used_no_opencl_has_no_trace_and_says_why(node: OneNode) -> None:
    spec = JobSpec(("/bin/true",), gpu_milli=1)
    (key,) = await node.scheduler.submit(spec, owner=node.owner, shares=(DeviceShare(0, 1),))
    await node.scheduler.until_ended(key)
    with pytest.raises(NotFound, match="no trace"):
        await summary(node, key)
    assert not (node.state.shm / str(key[0])).exists()


async def test_a_long_one_without_opencl_accounts_for_its_device(node: OneNode) -> None:
    spec = JobSpec(("/bin/sleep", "1.1"), gpu_milli=500)
    (key,) = await node.scheduler.submit(spec, owner=node.owner, shares=(DeviceShare(0, 500),))
    await node.scheduler.until_ended(key)
    found = await summary(node, key)
    (device,) = found["devices"]
    assert sum(device["causes"].values()) == device["window_ns"] >= 1_000_000_000
    assert (
        "no process of the job has called a GPU runtime that stoker traces"
        in found["absent"]["kernels"]
    )
    assert found["waits"] == []  # stacks were not requested
    if os.geteuid() == 0:
        assert found["pressure"]["minor_faults"] > 0
    with pytest.raises(NotFound, match="no timeline"):
        await node.scheduler.ask("trace", TraceQuery("perfetto", *key))
