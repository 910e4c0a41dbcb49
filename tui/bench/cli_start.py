# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the command line: the time of whole commands beside that of a bare interpreter.

Broker and scheduler are the product's processes on loopback; they have no node, so no job starts.
Each command is a process of its own, from its start to its end. Owns the order: the commands take
turns in every round, so that all of them meet the same machine, and that compiled modules are kept
as an installed program has them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from stoker.mesh.client.bench_submit import percentile
from stoker.mesh.connection.context import SavedContext
from stoker.mesh.wire import schema
from stoker.native.errors import StokerError
from stoker.tui.bench import brokers, leader_submits
from stoker.tui.bench.brokers import USER, Broker

PYTHON: Final = "python"
"""The kind that every other one is compared with."""
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "version": ("--version",),
    "jobs": ("jobs",),
    "submit": ("submit", "true"),
}
Report = Callable[[str], None]


class CliRow(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one kind of command in ms; a ratio is the least time over the interpreter's.

    CPU time is that of user and system together. On a machine that does other work it says more
    than the time that passed.
    """

    kind: str
    runs: int
    best_ms: float
    p50_ms: float
    ratio: float
    cpu_ms: float
    cpu_ratio: float


class Took(NamedTuple):
    """One run of a command in ns: the time that passed, and that of CPUs."""

    wall_ns: int
    cpu_ns: int


class CliResult(msgspec.Struct, frozen=True, kw_only=True):
    """The rows, the bare interpreter first."""

    schema: str = schema.VERSION
    bench: str = "cli"
    rows: tuple[CliRow, ...]


def measure(rounds: int, report: Report) -> CliResult:
    """Measure each kind once in each of `rounds` rounds."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        with brokers.running(folder, 1) as (broker,), leader_submits.running(broker):
            return timed(broker, folder, rounds, report)


def timed(broker: Broker, folder: Path, rounds: int, report: Report) -> CliResult:
    """Measure at this broker, whose scheduler runs."""
    environ = _environ(broker, folder)
    argvs: dict[str, tuple[str, ...]] = {PYTHON: (sys.executable, "-c", "pass")}
    argvs |= {kind: (*_program(), *words) for kind, words in COMMANDS.items()}
    taken: dict[str, list[Took]] = {kind: [] for kind in argvs}
    for number in range(rounds + 1):
        report(f"round {number} of {rounds}" if number else "warming up")
        for kind, argv in argvs.items():
            took = _run(argv, environ)
            if number:
                taken[kind].append(took)
    return CliResult(rows=rows(taken))


def rows(taken: Mapping[str, Sequence[Took]]) -> tuple[CliRow, ...]:
    """Return the figures of the runs of each kind."""
    bare = _least(taken[PYTHON])
    return tuple(_row(kind, runs, bare) for kind, runs in taken.items())


def _row(kind: str, runs: Sequence[Took], bare: Took) -> CliRow:
    least = _least(runs)
    return CliRow(
        kind=kind,
        runs=len(runs),
        best_ms=least.wall_ns / 1e6,
        p50_ms=percentile(sorted(run.wall_ns for run in runs), 50) / 1e6,
        ratio=least.wall_ns / bare.wall_ns,
        cpu_ms=least.cpu_ns / 1e6,
        cpu_ratio=least.cpu_ns / bare.cpu_ns,
    )


def _least(runs: Sequence[Took]) -> Took:
    return Took(min(run.wall_ns for run in runs), min(run.cpu_ns for run in runs))


def text(result: CliResult) -> str:
    """The result as lines for people."""
    return "".join(
        f"{row.kind:<8} best {row.best_ms:7.1f} ms {row.ratio:5.2f} x"
        f"  p50 {row.p50_ms:7.1f} ms  CPU {row.cpu_ms:7.1f} ms {row.cpu_ratio:5.2f} x\n"
        for row in result.rows
    )


def _program() -> tuple[str, ...]:
    """The command that people type, where it is installed beside the interpreter."""
    script = Path(sys.executable).with_name("stoker")
    return (str(script),) if script.exists() else (sys.executable, "-m", "stoker")


def _environ(broker: Broker, folder: Path) -> dict[str, str]:
    """The environment of the commands: this node's context, and a place for compiled modules."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    kept.pop("STOKER_STATE", None)
    where = broker.user
    saved = SavedContext(
        where.url, str(where.seed_file), USER, certificate_file=str(where.certificate)
    )
    place = folder / "config" / "stoker" / "context.json"
    place.parent.mkdir(parents=True)
    place.write_bytes(msgspec.json.encode(saved))
    return {
        **kept,
        "XDG_CONFIG_HOME": str(folder / "config"),
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
    }


def _run(argv: Sequence[str], environ: Mapping[str, str]) -> Took:
    """Run a command to its end; StokerError if it fails."""
    with tempfile.TemporaryFile() as said:
        began_ns = time.monotonic_ns()
        process = subprocess.Popen(
            argv, env=environ, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        _, status, used = os.wait4(process.pid, 0)
        wall_ns = time.monotonic_ns() - began_ns
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            words = said.read().decode(errors="replace").strip()
            raise StokerError(f"{' '.join(argv)}: {words}")
    return Took(wall_ns, round((used.ru_utime + used.ru_stime) * 1e9))
