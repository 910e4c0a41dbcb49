# SPDX-License-Identifier: Apache-2.0
"""Process identity: a pid with its start time and boot, so that a reused pid is never mistaken.

`<run>/pids.json` belongs to this module. No signal is sent to a pid before its start time was
compared.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from stoker.agent.state.host_facts import boot_id
from stoker.agent.state.state_folder import StateFolder, read_json, write_json
from stoker.native.errors import Corrupt

MARK = "STOKER_PROCESS"
"""The environment variable `<instance>/<name>/<pid>` of every process of a node. It identifies the
process even if pids.json is lost, and its pid tells the children of the process apart."""

SUPERVISOR = "supervisor"


class ProcessId(msgspec.Struct, frozen=True):
    """One process without ambiguity. `start`: field 22 of /proc/<pid>/stat, clock ticks since
    boot."""

    pid: int
    start: int
    ready: bool = False


class Pids(msgspec.Struct, frozen=True):
    """`pids.json`: the processes that the supervisor started, and which of them are ready."""

    boot_id: str
    processes: dict[str, ProcessId]


def start_ticks(pid: int) -> int | None:
    """Return when this pid started; None if no such process lives (a zombie does not)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def identify(pid: int) -> ProcessId | None:
    """Return the living process of this pid; None without one."""
    start = start_ticks(pid)
    return None if start is None else ProcessId(pid, start)


def lives(process: ProcessId) -> bool:
    """True if this very process still runs."""
    return start_ticks(process.pid) == process.start


def arguments(process: ProcessId) -> tuple[str, ...]:
    """Return the process's arguments; empty if it is gone."""
    try:
        data = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(part.decode(errors="surrogateescape") for part in data.split(b"\0")[:-1])


def write(state: StateFolder, processes: dict[str, ProcessId]) -> None:
    write_json(state.pids, Pids(boot_id(), processes), mode=0o644)


def recorded(state: StateFolder) -> dict[str, ProcessId]:
    """Return the living processes of pids.json; empty without a file or after a reboot."""
    try:
        pids = read_json(state.pids, Pids)
    except Corrupt:
        return {}  # `marked` finds the same processes
    if pids.boot_id != boot_id():
        return {}
    return {name: process for name, process in pids.processes.items() if lives(process)}


def mark(instance: str, name: str, pid: int) -> str:
    """Return the value of MARK for one process."""
    return f"{instance}/{name}/{pid}"


def marked(instance: str) -> Iterator[tuple[str, ProcessId]]:
    """Yield every living process of this uid with the instance's mark, and its name. The name of a
    process's child ends in `+`, as in `spawner+`."""
    head = f"{MARK}={instance}/".encode()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if entry.stat().st_uid != os.geteuid():
                continue
            variables = Path(entry.path, "environ").read_bytes().split(b"\0")
            marks = [v[len(head) :].decode() for v in variables if v.startswith(head)]
            process = identify(int(entry.name)) if marks else None
            if process is not None:
                name, _, pid = marks[0].partition("/")
                yield (name if pid == entry.name else f"{name}+", process)


def find(state: StateFolder) -> dict[str, ProcessId]:
    """Return the living processes of this node by name, from pids.json and the marks."""
    found = recorded(state)
    known = {process.pid for process in found.values()}
    for name, process in marked(state.instance):
        if process.pid not in known and not name.endswith("+"):
            found.setdefault(name, process)
    return found


def open_pidfd(process: ProcessId) -> int | None:
    """Return a descriptor of this very process; None if it is gone."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if lives(process):  # checked after opening, so the descriptor cannot be another process's
        return handle
    os.close(handle)
    return None


def send(process: ProcessId, number: signal.Signals) -> bool:
    """Send a signal to this very process; False if it is gone."""
    handle = open_pidfd(process)
    if handle is None:
        return False
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def wait(process: ProcessId, timeout_s: float) -> bool:
    """Wait until this process has ended; False after `timeout_s`."""
    handle = open_pidfd(process)
    if handle is None:
        return True
    try:
        deadline = time.monotonic() + timeout_s
        left = timeout_s
        while left > 0:
            if select.select([handle], [], [], left)[0]:
                return True
            left = deadline - time.monotonic()
        return False
    finally:
        os.close(handle)


def end(process: ProcessId, grace_s: float) -> bool:
    """Send SIGTERM, then SIGKILL after `grace_s`; True once the process is gone."""
    if not send(process, signal.SIGTERM) or wait(process, grace_s):
        return True
    send(process, signal.SIGKILL)
    return wait(process, 2.0)
