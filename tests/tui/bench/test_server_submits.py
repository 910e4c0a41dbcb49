# SPDX-License-Identifier: Apache-2.0
"""Jobs through a log of one copy stand beside those through one of three, in one object."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import msgspec
import pytest
from product_node import STOKER

from stoker.mesh.client.bench_submit import SubmitResult
from stoker.tui.bench import server_submits


def result(p50_ms: float, p99_ms: float, rate: float) -> SubmitResult:
    return SubmitResult(
        start_p50_ms=p50_ms, start_p99_ms=p99_ms, jobs_per_s=rate, floor_per_s=1000.0,
        ratio=rate / 1000, floor_parallel_per_s=2000.0, rows=(),
    )  # fmt: skip


def test_ratios_are_of_several_servers_to_one() -> None:
    found = server_submits.compared(3, result(2.0, 4.0, 800.0), result(5.0, 6.0, 400.0))
    assert (found.rate_ratio, found.start_p50_ratio, found.start_p99_ratio) == (0.5, 2.5, 1.5)
    said = server_submits.text(found)
    assert "3 servers to one: 0.50 of the jobs a second, 2.50 of the start p50, 1.50 of" in said
    assert msgspec.to_builtins(found)["several"]["jobs_per_s"] == 400.0


@pytest.mark.soak
@pytest.mark.needs_root
def test_three_servers_are_measured_beside_one() -> None:
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    before = {path.name for path in Path("/run/netns").glob("*")}
    done = subprocess.run(
        [STOKER, "bench", "submit", "--servers", "3", "--jobs", "20", "--json"],
        capture_output=True, cwd="/", timeout=600, check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["servers"] == 3 and found["rate_ratio"] > 0
    for each in ("alone", "several"):
        assert found[each]["rows"][0]["jobs"] == 20
    assert {path.name for path in Path("/run/netns").glob("*")} == before
