# SPDX-License-Identifier: Apache-2.0
"""`stoker bench decide`: the cluster and its load, the measurement, and the result as text."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from stoker.scheduler import bench_cluster, bench_decide
from stoker.scheduler.sim import openb
from stoker.tui.bench import callgrind

Row = TypeVar("Row")


def machines(nodes: int, gpus: int | None, path: Path | None) -> list[openb.Machine]:
    """The machines of a file, or those of the published cluster, or `nodes` equal ones."""
    if path is not None:
        return _read(path, openb.read_machines)
    published = bench_cluster.openb_machines()
    if gpus is None and nodes == len(published):
        return published
    return bench_cluster.uniform_machines(nodes, gpus or 8)


def tasks(path: Path | None) -> list[openb.TraceTask]:
    """The tasks of a file, or those of the published trace."""
    return bench_cluster.openb_tasks() if path is None else _read(path, openb.read_tasks)


def _read(path: Path, reader: Callable[[Iterable[str], str], list[Row]]) -> list[Row]:
    with path.open(newline="") as lines:
        return reader(lines, path.name)


def through_python(load: bench_decide.DecideLoad) -> dict[str, Any]:
    """Measure the Python interface, which takes and gives objects."""
    return {**bench_decide.through_python(load, time.perf_counter_ns), "cpu": cpu()}


def measure(
    load: bench_decide.DecideLoad, count: Callable[[bench_decide.DecideLoad], callgrind.Counted]
) -> dict[str, Any]:
    """Measure the core, then count its instructions."""
    result = bench_decide.measure(load)
    counted = count(load)
    result["instructions_per_decision"] = counted.per_decision
    result["instructions_absent"] = counted.reason or None
    result["measured"]["instructions_per_decision"] = counted.what or None
    return {**result, "cpu": cpu()}


def cpu() -> str:
    """The model and the number of this machine's CPUs."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    model = found[1] if found else platform.processor() or platform.machine()
    return f"{model}, {len(os.sched_getaffinity(0))} CPUs"


def text(result: Mapping[str, Any]) -> str:
    """The figures as lines of text."""
    lines = [
        f"{result['nodes']} nodes, {result['devices']} devices, {result['fill_pct']} % full,"
        f" {result['jobs_running']} jobs, placement {result['placement']}{_gangs(result)}",
        f"decision       p50 {_us(result, 'p50_us')}  p99 {_us(result, 'p99_us')}"
        f"  p99.9 {_us(result, 'p999_us')}",
    ]
    if "both_p50_us" in result:
        lines.append(
            f"with commit    p50 {_us(result, 'both_p50_us')}  p99 {_us(result, 'both_p99_us')}"
        )
    if "decisions_per_s" in result:
        lines += [
            f"first seen     p50 {_us(result, 'first_seen_p50_us')}"
            f"  p99 {_us(result, 'first_seen_p99_us')}",
            f"full rescan    p50 {_us(result, 'naive_rescan_p50_us')}"
            f"  p99 {_us(result, 'naive_rescan_p99_us')}",
            f"batches of {result['batch']}  {result['decisions_per_s']:,} decisions/s,"
            f" {result['committed_per_s']:,}/s with commit",
        ]
    if "instructions_per_decision" in result:
        lines.append(_instructions_line(result))
    lines.append(f"on {result['cpu']}; {result['measured']['times']}")
    return "\n".join(lines) + "\n"


def _gangs(result: Mapping[str, Any]) -> str:
    tasks, domains = result["tasks_of_each_job"], result["domains"]
    return f", gangs of {tasks} within one of {domains} domains" if domains else ""


def _instructions_line(result: Mapping[str, Any]) -> str:
    count = result["instructions_per_decision"]
    said = f"not counted: {result['instructions_absent']}" if count is None else f"{count:,}"
    return f"instructions   {said}"


def _us(result: Mapping[str, Any], name: str) -> str:
    return f"{result[name]:8.2f} us"
