# SPDX-License-Identifier: Apache-2.0
"""The file that `stoker doctor --bundle` writes, for somebody who helps from afar.

Owns the list of what goes into it. Everything else stays out, above all keys, jobs and their
output; what could not be read is named in the bundle with the reason. The file is private to its
owner and never replaces another one.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import platform
import pwd
import socket
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from stoker.agent.commands.bundle_redaction import BundleRedaction
from stoker.agent.config import kept
from stoker.agent.state import joins, state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import lock, pids
from stoker.mesh.broker import users
from stoker.native.errors import Refused, StokerError
from stoker.native.row_forms import SCHEMA

LOG_BYTES_MAX: Final = 1 << 20
"""The most of each log file: its end."""
PATIENCE_S: Final = 2.0
LEFT_OUT: Final = (
    "keys and tokens; values of secret settings",
    "jobs: commands, environment, output, traces",
    "the log of the cluster and its telemetry: `stoker record --redact` makes a recording to share",
)


def write(where: StateFolder, file: Path, checks: list[dict[str, Any]]) -> str:
    """Write a bundle to `file`, and return the line that says what it holds.

    Refused if the file is there already or cannot be written.
    """
    made = _Bundle(where)
    made.collect(checks)
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise Refused(f"{file} is there already", hint="Name another file") from None
    except OSError as error:
        raise Refused(f"{file} cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "wb") as out:
        _pack(out, made.parts)
    missing = f", {len(made.missing)} parts are missing" if made.missing else ""
    return (
        f"{file}: {len(made.parts)} parts, {file.stat().st_size} bytes{missing}; secrets hidden in "
        f"texts: {made.redaction.hidden}. Look at it before you share it"
    )


def _pack(out: io.BufferedWriter, parts: dict[str, bytes]) -> None:
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in parts.items():
            entry = tarfile.TarInfo(f"stoker-bundle/{name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))


class _Bundle:
    """The parts of one bundle: name -> bytes."""

    def __init__(self, where: StateFolder) -> None:
        self.parts: dict[str, bytes] = {}
        self.missing: dict[str, str] = {}
        """Part -> the reason why it is not there."""
        self.redaction = BundleRedaction()
        self._where = where

    def collect(self, checks: list[dict[str, Any]]) -> None:
        """Learn all names first, then redact everything."""
        answers = self._answers()
        self._learn(answers)
        self._json("checks.json", checks)
        self._json("machine.json", _machine())
        self._json("processes.json", list(_processes(self._where)))
        self._settings()
        for name, answer in answers.items():
            self._json(f"node/{name}.json", answer)
        self._logs()
        missing = {name: self.redaction.text(why) for name, why in self.missing.items()}
        about = {
            "left_out": LEFT_OUT, "missing": missing, "secrets_hidden": self.redaction.hidden,
            "log_bytes_max": LOG_BYTES_MAX, "t_ns": time.time_ns(),
        }  # fmt: skip
        self.parts = {"about.json": _encoded(about), **self.parts}

    # --- names -----------------------------------------------------------------------------------

    def _learn(self, answers: dict[str, Any]) -> None:
        known = self.redaction
        known.know_folder(str(self._where.root), "STATE")
        for name in {socket.gethostname(), platform.node()}:
            known.know("node", name)
        known.know("user", os.environ.get("SUDO_USER", ""))
        try:
            self._learn_state()
        except StokerError as error:
            self.missing["names"] = error.message
        known.learn(list(answers.values()))

    def _learn_state(self) -> None:
        where, known = self._where, self.redaction
        if not where.root.exists() or not state_folder.exists(where):
            return
        cluster = state_folder.load(where)
        for kind, name in (("node", cluster.node), ("cluster", cluster.cluster)):
            known.know(kind, name)
        for server in cluster.servers:
            known.know("node", server.node)
        if where.joins.exists():
            for node in joins.load(where.joins).nodes:
                known.know("node", node)
        if where.users.exists():
            for name, user in users.load(where.users).items():
                known.know("user", name)
                known.know("user", _account(user.uid))

    # --- parts -----------------------------------------------------------------------------------

    def _json(self, name: str, value: Any) -> None:
        self.parts[name] = _encoded(self.redaction.value(value))

    def _settings(self) -> None:
        try:
            file = kept.path(self._where)
            found = kept.settings(self._where, kept.checked(file), os.environ)
        except (StokerError, OSError) as error:
            self.missing["settings.json"] = str(error)
            return
        rows = [{name: getattr(each, name) for name in each._fields} for each in found]
        self._json("settings.json", rows)

    def _answers(self) -> dict[str, Any]:
        """Return what the running node says of itself; each refusal is the reason of its part."""
        if lock.holder(self._where) is None:
            self.missing["node"] = "no node runs here"
            return {}
        try:
            return asyncio.run(self._requests())
        except StokerError as error:
            self.missing["node"] = error.message
            return {}

    async def _requests(self) -> dict[str, Any]:
        from stoker.mesh.client.client import Client

        found = {}
        async with Client.open(str(self._where.root), patience_s=PATIENCE_S) as client:
            for name, request in (
                ("nodes", client.nodes), ("devices", client.devices),
                ("cluster", client.cluster), ("telemetry", client.telemetry_streams),
            ):  # fmt: skip
                try:
                    found[name] = msgspec.to_builtins(await request())
                except StokerError as error:
                    self.missing[f"node/{name}.json"] = error.message
        return found

    def _logs(self) -> None:
        for path in sorted(self._where.log.glob("*.log")):
            try:
                self.parts[f"logs/{path.name}"] = self.redaction.text(_end_of(path)).encode()
            except OSError as error:
                self.missing[f"logs/{path.name}"] = str(error)


def _encoded(value: Any) -> bytes:
    return json.dumps({"schema": SCHEMA, "value": value}, indent=1, ensure_ascii=False).encode()


def _account(uid: int | None) -> str:
    """Return the name of a system user; empty where there is none."""
    try:
        return pwd.getpwuid(uid).pw_name if uid else ""
    except KeyError:
        return ""


def _end_of(path: Path) -> str:
    """Return the last LOG_BYTES_MAX of a log, from the beginning of a line."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - LOG_BYTES_MAX))
        data = file.read(LOG_BYTES_MAX)
    if size > LOG_BYTES_MAX:
        data = data.partition(b"\n")[2]
    return data.decode(errors="replace")


def _machine() -> dict[str, Any]:
    """Return what kind of machine this is; its name is no part of it."""
    from stoker import __version__

    system = os.uname()
    return {
        "stoker": __version__, "python": sys.version.split()[0], "kernel": system.release,
        "machine": system.machine, "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load": os.getloadavg(), "privileged": os.geteuid() == 0,
    }  # fmt: skip


def _processes(where: StateFolder) -> Iterator[dict[str, Any]]:
    """Yield the node's processes with the memory and the CPU time that each has."""
    for name, found in sorted(pids.find(where).items()):
        try:
            memory = Path(f"/proc/{found.pid}/statm").read_text().split()[1]
            fields = Path(f"/proc/{found.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks = int(fields[11]) + int(fields[12])
        yield {
            "process": name, "ready": found.ready, "cpu_s": ticks / os.sysconf("SC_CLK_TCK"),
            "rss_bytes": int(memory) * os.sysconf("SC_PAGE_SIZE"), "threads": int(fields[17]),
        }  # fmt: skip
