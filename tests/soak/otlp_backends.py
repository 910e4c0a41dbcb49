# SPDX-License-Identifier: Apache-2.0
"""Traces of a live node at real backends, read back and compared with the log.

    python -m tests.soak.otlp_backends        (make otlp-check)

Arize Phoenix, which `.ci/phoenix` installs below build/phoenix, takes them over HTTP and over gRPC.
An OpenTelemetry collector takes them where `otelcol` or `otelcol-contrib` is on PATH, and writes
them into a file. Each span of each job must come back with its ids, parent, name, times and status.
Prints one table, writes it to docs/measurements/otlp-backends.md, and exits with 1 if anything
differs. Needs root; removes the nodes, processes and files that it makes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stoker.agent.export.job_spans import SpanSource
from stoker.agent.state import state_folder
from tests.fakes.ports import free_port
from tests.product_node import LiveNode, live_node, wait_until

ROOT = Path(__file__).parents[2]
PHOENIX = ROOT / "build" / "phoenix" / "venv" / "bin"
RECORD = ROOT / "docs" / "measurements" / "otlp-backends.md"
COLLECTORS = ("otelcol", "otelcol-contrib")
PATIENCE_S = 60
US = 1000
"""Phoenix keeps times in microseconds, and rounds them as floating-point numbers."""
ROUNDED_US = 2


ABOUT = """# Traces at real backends

`make otlp-check` runs a node whose traces go to a backend, and runs jobs there: one that
succeeds, one that fails twice, one that follows another, one that is cancelled while it waits,
and one while it runs. It reads all spans back and compares ids, parents, names, statuses and
times with the log. Phoenix keeps times in microseconds, rounded, so they may be 2 us apart.
The last column counts from the last job's end; a node sends traces each `interval_s`, 10 s
here.
"""


class Spanned(NamedTuple):
    """A span as it is compared; times are in microseconds."""

    trace: str
    id: str
    parent: str
    name: str
    start_us: int
    end_us: int
    status: int


@dataclass
class Backend:
    """A backend that runs: its name, the variables that lead a node there, and what it has."""

    name: str
    variables: dict[str, str]
    spans: Callable[[], set[Spanned]]


@contextmanager
def running(argv: list[str], folder: Path, **environment: str) -> Iterator[None]:
    """Run a server until the end of the block; its output is in the folder."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            argv, env={**os.environ, **environment}, stdout=log, stderr=log, cwd=folder
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def phoenix(folder: Path) -> Iterator[list[Backend]]:
    """Run Phoenix, and return it as two backends: its port of HTTP and that of gRPC."""
    port, grpc = free_port(), free_port()
    places = {"PHOENIX_WORKING_DIR": str(folder), "PHOENIX_HOST": "127.0.0.1"}
    ports = {"PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(grpc)}
    url = f"http://127.0.0.1:{port}"
    quiet = {"PHOENIX_TELEMETRY_ENABLED": "false"}
    with running([str(PHOENIX / "phoenix"), "serve"], folder, **places, **ports, **quiet):
        wait_until(lambda: answers(f"{url}/healthz"), f"Phoenix; see {folder}/log", PATIENCE_S)
        http = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{url}/v1/traces"}
        by_grpc = {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://127.0.0.1:{grpc}",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
        }
        yield [
            Backend("Arize Phoenix, HTTP", http, lambda: in_phoenix(url)),
            Backend("Arize Phoenix, gRPC", by_grpc, lambda: in_phoenix(url)),
        ]


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def in_phoenix(url: str) -> set[Spanned]:
    """Return all spans of Phoenix's only project."""
    found: set[Spanned] = set()
    cursor = ""
    while True:
        at = f"{url}/v1/projects/default/spans/otlpv1?limit=100&cursor={cursor}"
        try:
            with urllib.request.urlopen(at, timeout=20) as answer:
                page = json.load(answer)
        except urllib.error.HTTPError:  # there is no project before the first span
            return found
        found |= {spanned(each) for each in page["data"]}
        if not page.get("next_cursor"):
            return found
        cursor = page["next_cursor"]


def spanned(span: dict[str, Any]) -> Spanned:
    """Return a span of OTLP's JSON, whose names are written in either case."""

    def field(name: str, other: str, default: Any) -> Any:
        return span.get(name) or span.get(other) or default

    return Spanned(
        field("trace_id", "traceId", ""),
        field("span_id", "spanId", ""),
        field("parent_span_id", "parentSpanId", ""),
        span["name"],
        int(field("start_time_unix_nano", "startTimeUnixNano", 0)) // US,
        int(field("end_time_unix_nano", "endTimeUnixNano", 0)) // US,
        int((span.get("status") or {}).get("code") or 0),
    )


@contextmanager
def collector(folder: Path) -> Iterator[list[Backend]]:
    """Run a collector that writes what it gets into a file; none if none is on PATH."""
    program = next(filter(None, map(shutil.which, COLLECTORS)), None)
    if program is None:
        yield []
        return
    port, file = free_port(), folder / "spans.json"
    file.touch()
    traces = {"receivers": ["otlp"], "exporters": ["file"]}
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {"file": {"path": str(file), "flush_interval": "1s"}},
        "service": {"telemetry": {"metrics": {"level": "none"}}, "pipelines": {"traces": traces}},
    }
    (folder / "config.json").write_text(json.dumps(config))
    with running([program, "--config", str(folder / "config.json")], folder):
        here = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
        yield [Backend(Path(program).name, here, lambda: in_file(file))]


def in_file(file: Path) -> set[Spanned]:
    lines = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
    resources = [each for line in lines for each in line.get("resourceSpans", ())]
    scopes = [each for resource in resources for each in resource["scopeSpans"]]
    return {spanned(span) for scope in scopes for span in scope["spans"]}


def run_jobs(node: LiveNode) -> list[int]:
    """Run one job that succeeds, one that fails and is tried again, one that follows, one that is
    cancelled before it runs, and one that is cancelled while it does."""
    good = node.submit("true")
    bad = node.submit("sh", "-c", "exit 3", retries=1)
    node.wait(good)
    follows, runs = node.submit("true", after=(good,)), node.submit("sleep", "600")
    waits = node.submit("true", after=(runs,))
    node.wait(runs, "running")
    node.stoker("cancel", str(waits))
    node.stoker("cancel", str(runs))
    jobs = [good, bad, follows, waits, runs]
    for job in jobs:
        node.wait(job)
    return jobs


def expected(node: LiveNode, jobs: list[int]) -> set[Spanned]:
    """Return the spans that the log says these jobs have."""
    source = SpanSource(state_folder.load(node.state).cluster, {}, "")
    views = [node.wait(job) for job in jobs]
    spans = [span for view in views for span in source.spans(view)]
    return {
        Spanned(
            f"{span.context.trace_id:032x}",
            f"{span.context.span_id:016x}",
            f"{span.parent.span_id:016x}" if span.parent is not None else "",
            span.name,
            (span.start_time or 0) // US,
            (span.end_time or 0) // US,
            {"UNSET": 0, "OK": 1, "ERROR": 2}[span.status.status_code.name],
        )
        for span in spans
    }


def check(backend: Backend) -> tuple[int, int, int, float]:
    """Return the jobs, their spans, those that came back as they were, and seconds until then."""
    with live_node(**backend.variables) as node:
        jobs = run_jobs(node)
        wanted, began = expected(node, jobs), time.monotonic()
        try:
            wait_until(lambda: not missing(wanted, backend.spans()), "all spans", PATIENCE_S)
        except pytest.fail.Exception:
            print(f"{backend.name}: {missing(wanted, backend.spans())}", file=sys.stderr)
        same = len(wanted) - len(missing(wanted, backend.spans()))
        return len(jobs), len(wanted), same, time.monotonic() - began


def missing(wanted: set[Spanned], had: set[Spanned]) -> list[Spanned]:
    """Return the spans that did not come back as they were."""
    by_id = {(each.trace, each.id): each for each in had}
    return [each for each in wanted if not is_same(each, by_id.get((each.trace, each.id)))]


def is_same(wanted: Spanned, had: Spanned | None) -> bool:
    if had is None:
        return False
    near = had._replace(start_us=wanted.start_us, end_us=wanted.end_us) == wanted
    apart = abs(had.start_us - wanted.start_us), abs(had.end_us - wanted.end_us)
    return near and max(apart) <= ROUNDED_US


def versions() -> str:
    program = "from importlib.metadata import version; print(version('arize-phoenix'))"
    argv = [str(PHOENIX / "python"), "-c", program]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def table(rows: list[str]) -> str:
    return "\n".join(
        ["| backend | jobs | spans | as they were | after |", "|---|---|---|---|---|", *rows]
    )


def main() -> int:
    """Return 1 if a span did not come back as it was."""
    rows, wrong = [], 0
    with tempfile.TemporaryDirectory(prefix="stoker-otlp-", dir="/tmp") as name:
        folders = [Path(name) / each for each in ("phoenix", "collector")]
        for folder in folders:
            folder.mkdir()
        with phoenix(folders[0]) as found, collector(folders[1]) as more:
            for backend in (*found, *more):
                jobs, spans, same, took_s = check(backend)
                wrong += spans - same
                rows.append(f"| {backend.name} | {jobs} | {spans} | {same} | {took_s:.0f} s |")
        if not more:
            rows.append("| a collector | | | not on PATH | |")
    print(table(rows))
    measured = f"Measured on {time.strftime('%Y-%m-%d')}, Arize Phoenix {versions()}."
    RECORD.write_text(f"{ABOUT}\n{measured}\n\n{table(rows)}\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
