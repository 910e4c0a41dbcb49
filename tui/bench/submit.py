# SPDX-License-Identifier: Apache-2.0
"""`stoker bench submit` on one node: the programs that it starts, and its result as a table."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from stoker.mesh.client import bench_submit
from stoker.mesh.client.bench_submit import SubmitResult
from stoker.mesh.client.client import Client
from stoker.native import paths


async def measure(state: str, work: Path, jobs: int, say: Callable[[str], None]) -> SubmitResult:
    """Measure a node; `work` is a folder that the users of its jobs can read."""
    noop = work / "stoker-bench-noop"
    shutil.copyfile(paths.program("stoker-bench-noop"), noop)
    noop.chmod(0o755)
    programs = bench_submit.SubmitPrograms(str(noop), str(paths.program("stoker-bench-floor")))
    cpus = len(os.sched_getaffinity(0))
    async with Client.open(state) as client:
        return await bench_submit.measure(client, programs, jobs, cpus, say)


def text(result: SubmitResult) -> str:
    """The rows as a table, and the floor of a machine whose CPUs all start processes."""
    lines = ["  GPUS   START P50   START P99      JOBS/S     FLOOR/S   RATIO"]
    for row in result.rows:
        lines.append(
            f"{row.gpu_milli / 1000:6g} {row.start_p50_ms:8.2f} ms {row.start_p99_ms:8.2f} ms "
            f"{row.jobs_per_s:11.0f} {row.floor_per_s:11.0f} {row.ratio:7.2f}"
        )
    lines.append(f"floor with one process per CPU: {result.floor_parallel_per_s:.0f}/s")
    return "\n".join(lines) + "\n"
