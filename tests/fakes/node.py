# SPDX-License-Identifier: Apache-2.0
"""A node for tests of clients: a real broker on loopback, and a scheduler of scripted answers.

The broker knows one user by nkey and denies the subjects that the test names; the scheduler has a
function for each verb.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
from nats.aio.msg import Msg

from stoker.mesh.identity import certificate, identity
from tests.fakes import pinned
from tests.fakes.ports import free_port

Answer = Callable[[dict[str, Any]], dict[str, Any] | None]
"""Function from a request to its reply, both as JSON; None for no reply."""


class FakeNode:
    """The node, as a context manager. `answers` (verb -> function) may be changed at any time."""

    def __init__(self, folder: Path, *, denied: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.answers: dict[str, Answer] = {}
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self._denied = denied
        self._user = identity.create(folder / "user.nk")
        self._scheduler = identity.create(folder / "scheduler.nk")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._broker: subprocess.Popen[bytes] | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self.port = free_port()
        self._pair = pinned.pair(folder)
        self.certificate = Path(self._pair[1])

    def __enter__(self) -> FakeNode:
        self.start_broker()
        self.start_scheduler()
        config = self.folder / "config/stoker"
        config.mkdir(parents=True)
        saved = {
            "url": self.url,
            "seed_file": str(self.folder / "user.nk"),
            "user": "tester",
            "certificate_file": str(self.certificate),
        }
        (config / "context.json").write_text(json.dumps(saved))
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop_scheduler()
        self.stop_broker()

    @property
    def url(self) -> str:
        return f"tls://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment in which the command line finds this node alone."""
        kept = {k: v for k, v in os.environ.items() if k != "STOKER_STATE"}
        return {**kept, "XDG_CONFIG_HOME": str(self.folder / "config")}

    def start_broker(self) -> None:
        beside = Path(sys.executable).parent
        binary = shutil.which("nats-server", path=f"{beside}:{os.environ.get('PATH', '')}") or ""
        assert binary, f"nats-server is neither in {beside} nor on PATH"
        config = self.folder / "broker.conf"
        deny = json.dumps(list(self._denied) or ["nothing.at.all"])
        key, shown = self._pair
        config.write_text(
            f"host: 127.0.0.1\nport: {self.port}\nmax_payload: 512KB\n"
            f"tls {{ key_file: {key}, cert_file: {shown}, handshake_first: true }}\n"
            "authorization { users: [\n"
            f"  {{ nkey: {self._scheduler.public} }}\n"
            f"  {{ nkey: {self._user.public},"
            f" permissions: {{ publish: {{ deny: {deny} }} }} }}\n] }}\n"
        )
        with (self.folder / "broker.log").open("ab") as log:
            self._broker = subprocess.Popen([binary, "-c", str(config)], stderr=log)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.02)
        raise AssertionError((self.folder / "broker.log").read_text())

    def become_another(self) -> None:
        """Give the next broker a certificate that no context has."""
        foreign = self.folder / "foreign"
        foreign.mkdir()
        self._pair = pinned.pair(foreign)

    def stop_broker(self) -> None:
        if self._broker is not None:
            self._broker.kill()
            self._broker.wait()
            self._broker = None

    def start_scheduler(self) -> None:
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True)
        self._thread.start()
        assert ready.wait(60)

    def stop_scheduler(self) -> None:
        if self._thread is not None and self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(60)
            self._thread = None

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        connection = await nats.connect(
            self.url,
            nkeys_seed=str(self.folder / "scheduler.nk"),
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.05,  # type: ignore[arg-type]
            error_cb=_ignore,
            **certificate.connecting(self.certificate),
        )
        await connection.subscribe("stoker.v1.>", cb=self._answer)
        await connection.flush()
        ready.set()
        await self._stop.wait()
        await connection.close()

    async def _answer(self, message: Msg) -> None:
        verb = message.subject.removeprefix("stoker.v1.")
        request = json.loads(message.data or b"{}")
        self.seen.append((verb, request))
        reply = self.answers[verb](request) if verb in self.answers else None
        if reply is not None:
            await message.respond(json.dumps(reply, separators=(",", ":")).encode())


async def _ignore(error: Exception) -> None:
    pass


def job_view(job: int = 1, state: str = "succeeded", **changes: Any) -> dict[str, Any]:
    """A JobView as JSON."""
    spec = {
        "argv": ["true"],
        "cwd": "/",
        "env": None,
        "gpu_milli": 0,
        "cpu_milli": None,
        "memory_bytes": None,
        "pids": None,
        "time_limit_s": None,
        "grace_s": 5.0,
        "priority": 0,
        "trace": "governed",
        "stdin": False,
        "output_bytes_max": 1 << 30,
    }
    ended = state in ("succeeded", "failed", "cancelled", "timeout", "lost")
    times = {"submitted_ns": 1, "started_ns": 2, "ended_ns": 3 if ended else None}
    view: dict[str, Any] = {
        "schema": "stoker/v1",
        "job": job,
        "user": "tester",
        "name": "",
        "state": state,
        "reason": "",
        "attempt": 1,
        "times": times,
        "spec": spec,
        "exit_code": 0 if state == "succeeded" else None,
        "signal": None,
    }
    return view | changes


def node_view(node: str) -> dict[str, Any]:
    """A NodeView as JSON, of a node without devices and jobs."""
    row = {"node": node, "state": "ready", "boot_id": "b", "devices": 0, "jobs": 0}
    return row | {"schema": "stoker/v1", "cpu_milli": 1000, "memory_bytes": 1 << 30}


def device_view(node: str) -> dict[str, Any]:
    """A DeviceView as JSON, of the only device of a node."""
    named = {"id": f"gpu-{node}", "node": node, "index": 0, "vendor": "nvidia", "model": "m"}
    state = {"unavailable": "", "sim": True, "granted_milli": 0, "jobs": []}
    return named | state | {"kind": "gpu", "memory_bytes": 1 << 30}


def failure(code: str, message: str, hint: str = "") -> dict[str, Any]:
    """An error reply as JSON, with `error` first as the service sends it."""
    error = {"code": code, "message": message, "hint": hint}
    return {"error": error, "schema": "stoker/v1"}
