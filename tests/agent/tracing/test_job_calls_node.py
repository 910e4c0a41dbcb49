# SPDX-License-Identifier: Apache-2.0
"""Calls of a job on a whole node: in its summary, in the doctor's report, and gone afterwards.

SIM: the library is a stand-in for libcuda.so.1.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.probes.doctor.site_doctor import site_checks
from tests.probes.gpu_jobs import compile_caller, compile_library

pytestmark = [pytest.mark.needs_root, pytest.mark.needs_bpf]

LAUNCH = "cuda.cuLaunchKernel"
CALLS = 1_009


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stoker-calls-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def told(node: LiveNode, id: str) -> str:
    """Return the doctor's line about the probe sites."""
    checks = site_checks(node.state.agent)
    return next((each.text for each in checks if each.id == f"probe.site.{id}"), "")


def sites(node: LiveNode) -> dict[str, dict[str, Any]]:
    """Return that line from the whole doctor."""
    report = json.loads(node.stoker("doctor", "-o", "json", check=False).stdout)
    rows = report["checks"] if isinstance(report, dict) else report
    return {row["id"]: row for row in rows if row["id"].startswith("probe.site.")}


def test_calls_of_a_job_are_in_its_summary(folder: Path) -> None:
    library = compile_library(folder / "libcuda.so.1")
    caller = compile_caller(folder / "caller")
    go = folder / "go"
    script = (
        f"(echo open {library}; while ! [ -e {go} ]; do sleep 0.05; done;"
        f" echo call cuLaunchKernel {CALLS}; echo call cuGraphLaunch 13) | {caller}"
    )
    with live_node("--root-jobs-as", "root") as node:
        wait_until(
            lambda: bool(node.ask(lambda client: client.devices()).devices), "a device is found"
        )
        job = node.submit("sh", "-c", script, gpu_milli=1000)
        # Over budget it is attached in windows, which a look may never meet, or not at all: a hit
        # costs more than 2 us on some machines.
        wait_until(
            lambda: any(
                word in told(node, LAUNCH) for word in ("1 processes", "sampled", "off for cost")
            ),
            "it is attached",
        )
        found = sites(node)
        launch = found[f"probe.site.{LAUNCH}"]
        assert launch["status"] == "PASS"
        reduced = "sampled" in launch["text"] or "off for cost" in launch["text"]
        assert "1 processes" in launch["text"] or reduced
        assert "measured on this machine" in json.dumps(found["probe.site.cost"])
        go.touch()
        trace = node.wait(job, trace=True).trace
        assert trace is not None
        rows = {row["name"]: row for row in trace["calls"]}
        if LAUNCH not in rows:
            assert "off for cost" in launch["text"]
        elif rows[LAUNCH]["count"] != CALLS:
            assert reduced and rows[LAUNCH]["seen"] < 1
            if not rows[LAUNCH]["count"]:
                assert "saw none" in rows[LAUNCH]["note"] or "off for cost" in launch["text"]
        assert rows["cuda.cuGraphLaunch"]["count"] == 13
        assert rows["cuda.cuGraphLaunch"]["open"] == 0
        wait_until(lambda: not told(node, LAUNCH), "nothing of the job is told any more")
