# SPDX-License-Identifier: Apache-2.0
"""A trace is compared with the job's own account: the program adds up its own profiling events."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.agent.supervise import pids
from tests.probes.segment_view import COUNTED, SegmentView

pytestmark = pytest.mark.needs_root

LONG, SHORT = 498, 499
LAUNCHES = LONG + SHORT
"""997 launches, the last of which is in no full batch of anything."""

PYOPENCL = Path(__file__).with_name("add_kernels.py").read_text()


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    """Root's jobs run as root here: the interpreter may lie where nobody else can read it."""
    with live_node("--root-jobs-as", "root") as live:
        wait_until(
            lambda: bool(live.ask(lambda client: client.devices()).devices), "a device is found"
        )
        yield live


@pytest.fixture(scope="module")
def launches(public_folder: Path) -> str:
    program = public_folder / "launches"
    source = Path(__file__).with_name("launches.c")
    subprocess.run(["gcc", "-O2", "-o", program, source, "-lOpenCL"], check=True)
    return str(program)


def totals(output: bytes) -> dict[str, tuple[int, int]]:
    """Kernel -> (count, ns) as the program printed it."""
    rows = [line.split() for line in output.decode().splitlines() if line.count(" ") == 2]
    return {name: (int(count), int(ns)) for name, count, ns in rows}


def kernels(trace: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in trace["kernels"]}


def summary(node: LiveNode, job: int) -> dict[str, Any]:
    found = node.wait(job, trace=True)
    assert found.trace is not None, (found.state, found.reason, found.trace_absent)
    trace: dict[str, Any] = found.trace
    return trace


def lost(trace: dict[str, Any]) -> dict[str, int]:
    return {counter: count for counter, count in trace["loss"].items() if count}


def check_causes(trace: dict[str, Any]) -> None:
    assert trace["devices"]
    for device in trace["devices"]:
        assert sum(device["causes"].values()) == device["window_ns"], device
        assert device["window_ns"] == trace["window"]["to_ns"] - trace["window"]["from_ns"]


def traced_in_time(node: LiveNode, launches: str) -> tuple[int, dict[str, Any]]:
    """A job traced in full whose agent was never late, and its trace. All is counted in any case,
    and on a machine so busy that the agent comes after the lease the trace says what it did not
    time."""
    for _ in range(5):
        job = node.submit(launches, str(LONG), str(SHORT), gpu_milli=1000, trace="full")
        trace = summary(node, job)
        found = kernels(trace)
        assert {name: row["count"] for name, row in found.items()} == {
            "grind": LONG,
            "touch": SHORT,
        }
        estimated = any(row["estimate"] for row in found.values())
        assert estimated == (trace["loss"]["untimed"] > 0)
        if not trace["loss"]["leases_lapsed"]:
            return job, trace
    pytest.fail("the agent came too late to five jobs of five")


def test_full_counts_and_times_every_launch(node: LiveNode, launches: str, tmp_path: Path) -> None:
    job, trace = traced_in_time(node, launches)
    told = totals(node.output(job))
    assert {name: count for name, (count, _) in told.items()} == {"grind": LONG, "touch": SHORT}
    found = kernels(trace)
    assert not any(row["estimate"] for row in found.values())
    assert lost(trace) == {} and "launches" not in trace["absent"]
    ours, theirs = (
        sum(row["total_ns"] for row in found.values()),
        sum(ns for _, ns in told.values()),
    )
    assert abs(ours - theirs) <= theirs / 100, (ours, theirs)
    check_causes(trace)
    assert trace["devices"][0]["causes"]["kernel_ns"] >= ours * 0.99

    path = tmp_path / "timeline"
    node.stoker("trace", str(job), "--file", str(path))
    assert slices(path) == {"grind": LONG, "touch": SHORT}


def slices(path: Path) -> dict[str, int]:
    """Slices on the device's queues by name, read with Perfetto's own protocol definitions."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

    trace = protos.Trace()
    trace.ParseFromString(path.read_bytes())
    names: dict[tuple[int, int], str] = {}
    tracks: dict[int, str] = {}
    begun: list[tuple[int, str]] = []
    opened = closed = 0
    for packet in trace.packet:
        sequence = packet.trusted_packet_sequence_id
        for entry in packet.interned_data.event_names:
            names[sequence, entry.iid] = entry.name
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        if event.type == protos.TrackEvent.TYPE_SLICE_BEGIN:
            opened += 1
            begun.append(
                (event.track_uuid, event.name or names.get((sequence, event.name_iid), ""))
            )
        elif event.type == protos.TrackEvent.TYPE_SLICE_END:
            closed += 1
    assert opened == closed
    return dict(Counter(name for track, name in begun if tracks.get(track, "").startswith("queue")))


def test_each_rank_of_a_gang_has_a_trace_of_its_own(
    node: LiveNode, launches: str, tmp_path: Path
) -> None:
    script = f"exec {launches} $((20 + RANK)) $((100 * (RANK + 1)))"
    job = node.submit("sh", "-c", script, tasks=2, gpu_milli=400, trace="full")
    assert node.wait(job).state == "succeeded"
    wanted = [{"grind": 20 + rank, "touch": 100 * (rank + 1)} for rank in range(2)]
    for rank in range(2):
        view = node.ask(lambda client, rank=rank: client.get(job, trace=True, rank=rank))
        assert view.trace is not None, view.trace_absent
        found = kernels(view.trace)
        assert {name: row["count"] for name, row in found.items()} == wanted[rank]
        check_causes(view.trace)
    path = tmp_path / "timeline"
    node.stoker("trace", str(job), "--rank", "1", "--file", str(path))
    assert slices(path) == wanted[1]

    whole = node.json("job", str(job))
    (devices, *more) = [time["window_ns"] for time in whole["rank_times"]]
    assert devices > 0 and len(more) == 1 and more[0] > 0
    assert [time["causes"]["kernel_ns"] > 0 for time in whole["rank_times"]] == [True, True]
    shown = node.stoker("job", str(job)).stdout.decode()
    assert "time of the devices of 2 ranks" in shown and "\n  rank 1 " in shown, shown
    alone = node.stoker("job", str(job), "--rank", "1").stdout.decode()
    assert "200" in alone and "time of the devices" not in alone, alone
    for verb in ("job", "trace", "explain"):
        refused = node.stoker(verb, str(job), "--rank", "2", check=False)
        assert refused.returncode != 0 and b"has no rank 2" in refused.stderr, refused


def test_governed_counts_exactly_and_says_what_it_estimates(node: LiveNode, launches: str) -> None:
    job = node.submit(launches, str(LONG), str(SHORT), gpu_milli=1000, trace="governed")
    trace = summary(node, job)
    told, found = totals(node.output(job)), kernels(trace)
    assert {name: row["count"] for name, row in found.items()} == {"grind": LONG, "touch": SHORT}
    for name, row in found.items():
        room = row["error_ns"] if row["estimate"] else told[name][1] / 100
        assert abs(row["total_ns"] - told[name][1]) <= room + told[name][1] / 100, (row, told)
        assert row["estimate"] or row["error_ns"] == 0
    check_causes(trace)


def test_off_traces_nothing_and_says_so(node: LiveNode, launches: str) -> None:
    job = node.submit(launches, "3", "3", gpu_milli=1000, trace="off")
    found = node.wait(job, trace=True)
    assert found.state == "succeeded"
    assert found.trace is None or not found.trace["kernels"]
    assert found.trace_absent or found.trace["absent"]


def started_launching(node: LiveNode, launches: str, count: int, *more: str) -> int:
    job = node.submit(launches, str(count), "0", "1000", *more, gpu_milli=1000, trace="full")
    wait_until(lambda: count_of(node, job) > 20, "the first launches are folded")
    return job


def count_of(node: LiveNode, job: int) -> int:
    found = node.ask(lambda client: client.get(job, trace=True))
    rows = found.trace["kernels"] if found.trace else []
    return sum(row["count"] for row in rows)


def test_a_job_killed_in_the_middle_keeps_its_trace(node: LiveNode, launches: str) -> None:
    job = started_launching(node, launches, 30_000)
    node.stoker("cancel", str(job))
    trace = summary(node, job)
    assert node.wait(job).state == "cancelled"
    assert 20 < kernels(trace)["grind"]["count"] < 30_000
    check_causes(trace)


def test_the_agents_death_costs_no_launch(node: LiveNode, launches: str) -> None:
    job = started_launching(node, launches, 900)
    old = node.kill("agent")
    time.sleep(0.2)  # launches go on while nobody drains
    node.wait_for_new("agent", old)
    trace = summary(node, job)
    row = kernels(trace)["grind"]
    if trace["coverage"]["dormant_ns"]:  # the next agent came more than ten seconds too late
        assert row["count"] < 900 and row["seen"] < 1
        assert any(device["causes"]["not_observed_ns"] for device in trace["devices"])
        return
    assert (row["count"], row["seen"]) == (900, 1.0)
    if trace["loss"]["leases_lapsed"]:  # on a machine so busy that it came after the lease
        return
    assert set(lost(trace)) <= {"broken_spans"}  # thread time that nobody could watch, counted
    told = totals(node.output(job))["grind"][1]
    assert abs(row["total_ns"] - told) <= told / 100


def test_an_agent_that_gets_no_cpu_costs_no_launch(node: LiveNode, launches: str) -> None:
    """It is stopped until the tracer's lease is over: the program goes on, and all is counted."""
    job = started_launching(node, launches, 900)
    agent = pids.find(node.state)["agent"].pid
    (segments,) = node.state.shm.glob(f"{job}*")
    os.kill(agent, signal.SIGSTOP)
    try:
        wait_until(lambda: SegmentView(segments).phase == COUNTED, "the lease is over")
        time.sleep(0.1)  # launches go on while nobody may time them
    finally:
        os.kill(agent, signal.SIGCONT)
    trace = summary(node, job)
    row = kernels(trace)["grind"]
    assert (row["count"], row["seen"], row["estimate"]) == (900, 1.0, True)
    assert trace["coverage"]["counted_ns"] > 0 == trace["coverage"]["dormant_ns"]
    assert trace["loss"]["untimed"] > 0 and trace["loss"]["leases_lapsed"] > 0
    waits = sum(event["count"] for event in trace["events"])
    assert trace["records"]["folded"] - waits + trace["loss"]["untimed"] == 900


def test_a_python_program_is_traced_without_a_change(node: LiveNode) -> None:
    job = node.submit(
        sys.executable, "-c", PYOPENCL, gpu_milli=1000, trace="full",
        env={"PYOPENCL_NO_CACHE": "1"},
    )  # fmt: skip
    assert node.wait(job).state == "succeeded", node.output(job, "err").decode()
    trace = summary(node, job)
    assert kernels(trace)["add"]["count"] == 37
    assert json.loads(node.stoker("job", str(job), "-o", "json").stdout)["trace"]["mode"] == "full"
