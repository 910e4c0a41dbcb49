# SPDX-License-Identifier: Apache-2.0
"""A whole node for a test: `stoker up` in a folder of its own, always `down` again."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import nats
import pytest
from nats.aio.client import Client as Connection

from stoker.agent.state.state_folder import StateFolder, locate
from stoker.agent.supervise import leftover_cgroups, pids
from stoker.mesh.client.client import Client
from stoker.mesh.connection import context
from stoker.mesh.connection.context import Context
from stoker.mesh.identity import certificate
from stoker.mesh.wire import schema
from tests import command_line

STOKER = Path(sys.executable).parent / "stoker"
PATIENCE_S = 120
T = TypeVar("T")


class LiveNode:
    """One running node, used as a person uses it: through the command line."""

    def __init__(self, root: Path, device_kind: str = "cpu") -> None:
        """`device_kind`: what its tests' jobs ask for; PoCL's CPU device where no card is there."""
        self.root = root
        self.device_kind = device_kind
        self.state: StateFolder = locate(root)
        self.environment = {**os.environ, "STOKER_STATE": str(root), "NO_COLOR": "1"}

    def stoker(
        self, *words: str, check: bool = True, stdin: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one `stoker` command; a failure shows what it said."""
        done = command_line.stoker(words, self.environment, stdin, PATIENCE_S)
        if check and done.returncode != 0:
            pytest.fail(f"stoker {' '.join(words)}: exit {done.returncode}\n{done.stderr.decode()}")
        return done

    def explained(self, job: int | str) -> str:
        """Return all that `stoker explain` says of a job on one line: where it breaks its lines
        depends on their width."""
        said = self.stoker("explain", str(job), "-o", "wide").stdout.decode()
        return " ".join(said.split())

    def json(self, *words: str) -> dict[str, object]:
        """A read command's JSON object."""
        answer: dict[str, object] = json.loads(self.stoker(*words, "-o", "json").stdout)
        return answer

    # --- the same without a process per question ---------------------------------------------

    def ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        """One conversation through the client library, as the node's own user."""
        return asyncio.run(_ask(str(self.root), question))

    def submit(self, *argv: str, **fields: Any) -> int:
        """Submit; returns the job's number."""
        if fields.get("gpu_milli"):
            mixed = self.device_kind == "any"
            fields = {"device_kind": self.device_kind, "mix_vendors": mixed, **fields}
        request = schema.JobRequest(argv=argv, **fields)
        return self.ask(lambda client: client.submit(request)).job

    def wait(self, job: int, until: str = "ended", *, trace: bool = False) -> schema.JobView:
        """The job when it is over (or runs)."""

        async def question(client: Client) -> schema.JobView:
            await asyncio.wait_for(client.wait(job, until), PATIENCE_S)
            return await client.get(job, trace=trace)

        return self.ask(question)

    def run(self, *argv: str, **fields: Any) -> schema.JobView:
        """Submit and wait for the end."""
        return self.wait(self.submit(*argv, **fields))

    def output(self, job: int, stream: str = "out") -> bytes:
        """Everything the job wrote so far."""
        return self.ask(lambda client: read_output(client, job, stream))

    def jobs(self) -> list[int]:
        """The numbers of all jobs, newest first."""
        request = schema.ListRequest(limit=schema.LIST_MAX)

        async def question(client: Client) -> list[int]:
            return [job.job async for job in client.list_all(request)]

        return self.ask(question)

    def raw(self, subject: str, data: bytes, timeout_s: float = 3.0) -> dict[str, Any]:
        """A request with nothing but nats-py and this user's key; the reply's JSON."""
        found = context.find(str(self.root))
        return asyncio.run(raw_request(found, subject, data, timeout_s))

    # --- what the machine shows of it --------------------------------------------------------

    def traces_left(self) -> list[str]:
        """Processes, cgroups, shared memory and run folders of this node."""
        left = [f"process {p.pid} ({name})" for name, p in pids.marked(self.state.instance)]
        left += [f"cgroup {tree}" for tree in leftover_cgroups.trees(self.state.instance)]
        return left + [str(path) for path in (self.state.run, self.state.shm) if path.exists()]

    def kill(self, name: str) -> int:
        """SIGKILL one process of the node; returns its pid."""
        process = pids.find(self.state)[name]
        os.kill(process.pid, signal.SIGKILL)
        return process.pid

    def wait_for_new(self, name: str, old: int) -> None:
        """Wait until another process of that name lives; requests to it then wait by themselves."""
        pids_file = self.state.pids
        for _ in range(600):
            process = pids.find(self.state).get(name)
            if process is not None and process.pid != old:
                return
            time.sleep(0.1)
        pytest.fail(f"{name} was not started again within 60 s ({pids_file})")


async def _ask(state: str, question: Callable[[Client], Awaitable[T]]) -> T:
    async with Client.open(state) as client:
        return await question(client)


async def read_output(client: Client, job: int, stream: str = "out") -> bytes:
    """All output of a job up to its present end."""
    pieces, offset = [], 0
    while True:
        request = schema.LogsRequest(job=job, stream=stream, offset=offset)  # type: ignore[arg-type]
        piece = await client.logs(request)
        pieces.append(piece.data)
        offset = piece.next_offset
        if piece.eof or not piece.data:
            return b"".join(pieces)


async def raw_request(at: Context, subject: str, data: bytes, timeout_s: float) -> dict[str, Any]:
    """One NATS request; TimeoutError or a nats error when nobody may or does answer."""
    connection = await plain_connection(at, allow_reconnect=False)
    try:
        answer = await connection.request(subject, data, timeout=timeout_s)
        reply: dict[str, Any] = json.loads(answer.data)
        return reply
    finally:
        await connection.close()


async def plain_connection(at: Context, **options: Any) -> Connection:
    """A connection of nats-py's own, without our client."""
    return await nats.connect(
        at.url,
        nkeys_seed=str(at.seed_file),
        **{"error_cb": _quiet, **certificate.connecting(at.certificate), **options},
    )


async def _quiet(error: Exception) -> None:
    """Ignores connection errors, since each shows in its request."""


def wait_until(true: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait until `true` holds; fail by name when it does not in time."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds:g} s: {what}")
        time.sleep(0.05)


@contextmanager
def live_node(
    *options: str,
    prepare: Callable[[LiveNode], None] | None = None,
    device_kind: str = "cpu",
    up: bool = True,
    **variables: str,
) -> Iterator[LiveNode]:
    """A node in a folder that every user may enter but not read; `prepare` is called before `up`,
    which a test may keep for itself; `variables` join the environment of every command."""
    root = Path(tempfile.mkdtemp(prefix="stoker-test-", dir="/tmp"))
    root.chmod(0o711)
    node = LiveNode(root / "state", device_kind)
    node.environment |= variables
    try:
        if prepare is not None:
            prepare(node)
        if up:
            node.stoker("up", *options)
        yield node
    finally:
        down = node.stoker("down", check=False)
        logs = {path.name: path.read_text()[-2000:] for path in (root / "state/log").glob("*.log")}
        shutil.rmtree(root)
        if down.returncode != 0:
            pytest.fail(f"down: exit {down.returncode}\n{down.stderr.decode()}\n{logs}")
