# SPDX-License-Identifier: Apache-2.0
"""Jobs of a plain user that take the tracer away: not observed, charged as held, and named."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.mesh.wire.bottleneck import BY_CAUSE
from stoker.mesh.wire.schema import JobView

pytestmark = pytest.mark.needs_root

SOURCE = Path(__file__).parents[1] / "probes" / "opencl_program.c"
LATE = Path(__file__).with_name("late_start.c")
HIDDEN_NS = 1_500_000_000
"""The shortest run time of the program, by its own sleeps."""
GOVERNED_NS = 500_000_000
"""The shortest time after which the governor may take thread times as totals only."""
MOSTLY = 0.8
"""A process is looked at twice a second, and its driver comes after its start."""


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    """Root's jobs run as nobody here."""
    with live_node() as live:
        wait_until(
            lambda: bool(live.ask(lambda client: client.devices()).devices), "a device is found"
        )
        yield live


@pytest.fixture(scope="module")
def program(public_folder: Path) -> str:
    made = public_folder / "program"
    subprocess.run(["cc", "-O1", "-pthread", "-o", made, SOURCE, "-lOpenCL"], check=True)
    return str(made)


def usage(node: LiveNode) -> int:
    (queue,) = node.ask(lambda client: client.queues()).queues
    return queue.device_ns


def run(node: LiveNode, *argv: str) -> tuple[JobView, int]:
    """The job when it is over, and by how much it has grown what its queue has used."""
    before = usage(node)
    job = node.submit(*argv, gpu_milli=1000)
    view = node.wait(job, trace=True)
    assert view.state == "succeeded", node.output(job, "err").decode()
    return view, usage(node) - before


@pytest.mark.parametrize(
    "way",
    [
        "exec env -u OPENCL_LAYERS {program} slow 300",
        "exec env -u STOKER_TRACE_DIR {program} slow 300",
        "env -u OPENCL_LAYERS {program} slow 300 & {program} launch 10; wait",
    ],
    ids=["no layer", "no folder", "beside a traced one"],
)
def test_what_a_job_hides_is_charged_as_held(node: LiveNode, program: str, way: str) -> None:
    view, charged_ns = run(node, "/bin/sh", "-c", way.format(program=program))
    assert view.trace is not None
    (device,) = view.trace["devices"]
    assert sum(device["causes"].values()) == device["window_ns"]
    assert device["causes"]["not_observed_ns"] >= MOSTLY * HIDDEN_NS, device
    assert view.device_ns is not None and view.device_ns >= MOSTLY * HIDDEN_NS
    assert charged_ns >= MOSTLY * HIDDEN_NS
    assert "charged as held" in view.trace["absent"]["tracer"]
    shown = " ".join(node.stoker("job", str(view.job)).stdout.decode().split())
    assert "not observed" in shown and "charged as held" in shown
    if view.trace["kernels"]:  # what was counted is a lower bound, and reads as one
        assert re.search(r"at least 10 \([\d.]+ % seen\)", shown), shown
    assert "charged as held" in node.explained(view.job)
    for row in view.trace["kernels"]:
        assert (row["count"], row["seen"] < 1) == (10, True)
        assert row["error_ns"] >= MOSTLY * HIDDEN_NS


def test_who_gets_no_cpu_while_it_starts_has_not_hidden(
    node: LiveNode, public_folder: Path
) -> None:
    """Its driver is mapped for more than 6 s before its tracer, and it could not go on."""
    late = public_folder / "late_start"
    subprocess.run(["cc", "-O1", "-o", late, LATE, "-lOpenCL", "-ldl"], check=True)
    view, charged_ns = run(node, str(late), "6")
    assert view.trace is not None and "tracer" not in view.trace["absent"]
    assert sum(row["count"] for row in view.trace["kernels"]) == 50
    (device,) = view.trace["devices"]
    assert device["window_ns"] > 6_000_000_000
    assert charged_ns < MOSTLY * HIDDEN_NS


BLINDING = r"""
{program} slow 300 &
for i in $(seq 45); do
    for file in $STOKER_TRACE_DIR/*.seg; do
        printf '\003\0\0\0\0\0\0\0\377\377\377\377\377\377\377\177' |
            dd of=$file bs=16 seek=120 oflag=seek_bytes conv=notrunc
    done
    sleep 0.02
done 2>/dev/null
wait
"""
"""Tells its tracer to be dormant for ever, again and again, as the agent would."""


def test_a_job_that_blinds_its_own_tracer_is_told_of_and_pays(node: LiveNode, program: str) -> None:
    view, charged_ns = run(node, "/bin/sh", "-c", BLINDING.format(program=program))
    assert view.trace is not None
    dormant_ns = view.trace["coverage"]["dormant_ns"]
    assert dormant_ns > 0 < view.trace["loss"]["control_changed"]
    (device,) = view.trace["devices"]
    assert device["causes"]["not_observed_ns"] >= MOSTLY * dormant_ns
    assert charged_ns >= MOSTLY * dormant_ns
    assert "the job overwrote its tracers' mode" in view.trace["absent"]["launches"]
    (row,) = view.trace["kernels"]
    assert row["count"] < 300 and row["seen"] < 1 and row["error_ns"] >= dormant_ns


def test_who_only_holds_a_device_is_idle_and_pays_nothing(node: LiveNode) -> None:
    view, charged_ns = run(node, "/bin/sleep", "2")
    assert view.trace is not None and "tracer" not in view.trace["absent"]
    (device,) = view.trace["devices"]
    assert device["causes"]["held_idle_ns"] == device["window_ns"]
    assert (view.device_ns, charged_ns, view.reason) == (0, 0, "exit code 0")


def test_who_holds_an_idle_device_is_told_so_while_it_runs(node: LiveNode) -> None:
    job = node.submit("/bin/sleep", "300", gpu_milli=1000)
    wait_until(
        lambda: b"bottleneck: idle" in node.stoker("explain", str(job)).stdout, "it is found idle"
    )
    shown = node.explained(job)
    assert f"stoker cancel {job}" in shown
    (row,) = json.loads(node.stoker("waste", "-o", "json").stdout)["jobs"]
    assert (row["job"], row["command"], row["bottleneck"]) == (job, f"stoker cancel {job}", "idle")
    assert row["idle_ns"] == row["held_ns"] > 0
    node.stoker("cancel", str(job))
    node.wait(job)
    assert json.loads(node.stoker("waste", "-o", "json").stdout)["jobs"] == []
    past = json.loads(node.stoker("waste", "--since", "1h", "-o", "json").stdout)["jobs"]
    assert job in [each["job"] for each in past]
    (user,) = json.loads(node.stoker("waste", "--since", "1h", "--by-user", "-o", "json").stdout)[
        "users"
    ]
    # A job that was cancelled soon after its start has no trace, so its idle time is unknown.
    known = [each["idle_ns"] for each in past if each["idle_ns"] is not None]
    assert (user["idle_ns"], user["unknown"]) == (sum(known), len(past) - len(known))
    assert all(each["absent"] for each in past if each["idle_ns"] is None)


def test_the_bottleneck_of_a_job_is_its_largest_cause(node: LiveNode, program: str) -> None:
    view, _ = run(node, program, "slow", "100")
    explained = json.loads(node.stoker("explain", str(view.job), "-o", "json").stdout)
    assert view.trace is not None
    (device,) = view.trace["devices"]
    found, causes = explained["efficiency"]["bottleneck"], device["causes"]
    largest = max(causes, key=lambda cause: causes[cause] or 0)
    assert found["name"] in (BY_CAUSE[largest], "launch-bound")
    assert found["held_ns"] == device["window_ns"]
    assert found["share"] == causes[largest] / device["window_ns"]


def test_who_keeps_its_tracer_pays_for_what_it_used(node: LiveNode, program: str) -> None:
    view, charged_ns = run(node, "/bin/sh", "-c", f"{program} slow 300; exit 0")
    assert view.trace is not None and "tracer" not in view.trace["absent"]
    (device,) = view.trace["devices"]
    told = {name: view.trace[name] for name in ("devices", "loss", "coverage", "absent")}
    seen_ns = device["window_ns"]
    if "host spans" in view.trace["absent"]:  # the governor compares two readings before it acts
        seen_ns = GOVERNED_NS
    unseen_ns = device["window_ns"] - seen_ns + 0.05 * seen_ns
    unseen_ns += view.trace["coverage"]["dormant_ns"]  # the agent renewed the mode too late
    assert device["causes"]["not_observed_ns"] <= unseen_ns, json.dumps(told)
    assert charged_ns < MOSTLY * HIDDEN_NS
