# SPDX-License-Identifier: Apache-2.0
"""The verb `probe`: run an ad-hoc BCC probe on this machine and print its output.

Only `stoker.main` loads this module. `probes/adhoc/adhoc_source.py` decides how a source is
compiled and what is refused. Data goes to stdout, notes about the run to stderr.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.native.errors import BadRequest, NotFound, StokerError

if TYPE_CHECKING:
    from stoker.probes.adhoc.adhoc_process import Line, Summary
    from stoker.probes.adhoc.adhoc_source import ProbeTarget

_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
STARS = 40
"""The width of a histogram's longest bar."""


@click.group("probe")
def probe_command() -> None:
    """Measure the kernel or a library with a probe of your own while it runs."""


def _seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float:
    if value is None:
        return 0.0
    match = _TIME.fullmatch(value.strip())
    if match is None or not float(match[1]):
        raise click.BadParameter(f"{value!r} is not a time such as 5s, 500ms or 2m")
    return float(match[1]) * _UNITS[match[2] or "s"]


@probe_command.command("run")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--for", "seconds", metavar="TIME", callback=_seconds, help="Stop after this: 5s, 2m."
)
@click.option(
    "--pid", type=click.IntRange(1), help="Limit uprobes and stoker_wanted() to this process."
)
@click.option(
    "--job", type=click.IntRange(1), help="Limit uprobes and stoker_wanted() to this job."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "jsonl"]),
    default="text",
    show_default=True,
    help="Output form.",
)
@click.option("--state", metavar="DIR", help="State folder of the node, for --job.")
def run_command(
    *,
    file: Path,
    command: tuple[str, ...],
    seconds: float,
    pid: int | None,
    job: int | None,
    output: str,
    state: str | None,
) -> None:
    """Compile FILE with BCC, attach it, print its events and, at the end, its tables.

    After `--` a command may follow: the probe is attached before it starts and ends with it.
    Needs root. A probe that reads kernel structures runs only if their offsets are those of the
    running kernel, from its headers or its BTF.
    """
    from stoker.probes.adhoc import adhoc_source
    from stoker.probes.adhoc.adhoc_process import AdhocRun

    if sum((pid is not None, job is not None, bool(command))) > 1:
        raise BadRequest("give at most one of --pid, --job and a command")
    source = adhoc_source.read_source(file)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_terminated_by_exception())
        child = stack.enter_context(_waiting_child(command)) if command else None
        target = _target(child.pid if child else pid, job, state)
        run = AdhocRun(source, target, seconds=seconds)
        stack.callback(run.close)
        run.start()
        click.echo(f"compiling against {_BASES[run.summary.basis]}", err=True)
        handle = _printer(output == "jsonl", lambda: _release(child, run.stop))
        with _interrupts(run.stop):
            summary = run.serve(handle)
    _report(summary)
    if summary.failed:
        raise StokerError(_why(summary))


_BASES = {
    "headers": "the headers of the running kernel",
    "btf": "the running kernel's BTF",
    "types": "no kernel structures: there are neither headers of this kernel nor its BTF",
}


def _target(pid: int | None, job: int | None, state: str | None) -> ProbeTarget:
    from stoker.probes.adhoc.adhoc_source import ProbeTarget

    if pid is not None and not Path(f"/proc/{pid}").exists():
        raise NotFound(f"there is no process {pid}")
    if job is None:
        return ProbeTarget(pid=pid or 0)
    from stoker.agent.state import host_facts
    from stoker.agent.state.state_folder import locate
    from stoker.probes.host.cgroups import cgroup_id, cgroup_level

    jobs = host_facts.jobs_cgroup(locate(state).instance)
    cgroup = newest_cgroup(jobs, job) if jobs is not None else None
    if cgroup is None:
        raise NotFound(f"job {job} does not run on this machine, or its node has no cgroups")
    return ProbeTarget(cgroup=cgroup_id(cgroup), level=cgroup_level(cgroup))


def newest_cgroup(jobs: Path, job: int) -> Path | None:
    """Return the cgroup of the first task here of a job's newest attempt; None if it has none."""
    from stoker.agent.jobs.attempt_folders import cgroup_folder, cgroup_key

    names = (each.name for each in jobs.glob("*/*"))
    keys = [key for name in names if (key := cgroup_key(name)) and key.job == job]
    if not keys:
        return None
    return cgroup_folder(jobs, min(keys, key=lambda key: (-key.attempt, key.task)))


# --- the command after `--` -----------------------------------------------------------------------


@contextlib.contextmanager
def _waiting_child(command: tuple[str, ...]) -> Iterator[_Child]:
    """Start the command as a process that waits until it is released; it ends with this one."""
    child = _Child(command)
    try:
        yield child
    finally:
        child.close()


class _Child:
    def __init__(self, command: tuple[str, ...]) -> None:
        reader, self._release = os.pipe()
        waits = f'read -r _ <&{reader} || exit 0; exec {reader}<&-; exec "$@"'
        argv = ["/bin/bash", "-c", waits, "bash", *command]
        self._process = subprocess.Popen(argv, pass_fds=(reader,))
        os.close(reader)
        self.pid = self._process.pid
        self._gone = False

    def go(self, then: Callable[[], None]) -> None:
        """Release the command; `then` is called when it has ended."""
        with contextlib.suppress(OSError):
            os.write(self._release, b"\n")

        def wait() -> None:
            code = self._process.wait()
            if not self._gone:
                click.echo(f"the command ended with {code}", err=True)
                then()

        threading.Thread(target=wait, daemon=True).start()

    def close(self) -> None:
        self._gone = True
        os.close(self._release)
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(2.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _release(child: _Child | None, stop: Callable[[], None]) -> None:
    if child is not None:
        child.go(stop)


# --- signals --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _interrupts(stop: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C end the probe and print its tables; a second one ends at once."""

    def first(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop()

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _terminated_by_exception() -> Iterator[None]:
    """Let SIGTERM raise, so that nothing stays attached and no file is left."""

    def leave(number: int, frame: Any) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# --- output ---------------------------------------------------------------------------------------


def _printer(as_json: bool, ready: Callable[[], None]) -> Callable[[Line], None]:
    def handle(line: Line) -> None:
        if line["kind"] == "ready":
            what = f"{line['functions']} programs" if line["functions"] != 1 else "one program"
            click.echo(f"attached: {what}; Ctrl-C ends it", err=True)
            ready()
        elif line["kind"] in ("event", "print", "lost", "table"):
            for text in [json.dumps(line)] if as_json else _texts(line):
                click.echo(text)

    return handle


def _texts(line: Line) -> Iterator[str]:
    match line["kind"]:
        case "print":
            yield line["text"]
        case "event":
            data = line["data"]
            cells = data.items() if isinstance(data, dict) else [("value", data)]
            yield f"{line['table']}: " + " ".join(f"{name}={value}" for name, value in cells)
        case "lost":
            yield line.get("text") or f"{line['table']}: {line['count']} events lost"
        case _:
            yield from _table(line)


def _table(line: Line) -> Iterator[str]:
    yield f"{line['table']}:"
    if line.get("absent"):
        yield f"  cannot be read: {line['absent']}"
    rows = line["rows"]
    numbers = [value for _, value in rows if isinstance(value, int)]
    bars = len(numbers) == len(rows) and all(isinstance(key, int) for key, _ in rows)
    most = max(numbers, default=0) or 1
    for key, value in sorted(rows, key=lambda row: str(row[0]).rjust(24)):
        bar = "  " + "*" * round(STARS * value / most) if bars else ""
        yield f"  {_cell(key):<24} {_cell(value):>16}{bar}".rstrip()
    if line["left"]:
        yield f"  and {line['left']} more"


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={each}" for name, each in value.items())
    return str(value)


def _report(summary: Summary) -> None:
    """Print what the run lost."""
    if summary.lost:
        click.echo(f"{summary.lost} events were lost: the buffers were full", err=True)
    if summary.unshown:
        click.echo(f"{summary.unshown} events were not printed: too many a second", err=True)
    if summary.uncounted:
        names = ", ".join(summary.uncounted)
        click.echo(f"the losses of {names} are unknown: BCC does not report them", err=True)


def _why(summary: Summary) -> str:
    messages = summary.messages.strip()
    return f"{summary.failed}\n{messages}" if messages else summary.failed
