# SPDX-License-Identifier: Apache-2.0
"""A real spawner in a folder of its own, and jobs of other users below it.

Everything it makes, processes and cgroups included, is gone after `remove`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from stoker.agent.jobs.spawner import Spawner
from stoker.agent.jobs.spawner_messages import Event, Exited, Launch, Prepared, Refusal, Started
from stoker.native.paths import program

OWNER, OTHER = 61001, 61002
"""Users without an entry in the password file."""
SOURCES = Path(__file__).parent / "native" / "runner"
NATIVE = Path(__file__).parent.parent / "native"
VALIDATED = [
    NATIVE / "runner" / f"{name}.c"
    for name in (
        "wire/wire",
        "journal/table",
        "journal/index",
        "watchdog/lease",
        "cgroup/limit",
        "cgroup/numa",
        "site/site",
    )
]
"""Parts of the runner that `validate.c` is built with."""


def compile_c(target: Path, *arguments: str) -> Path:
    """Build a C program of the tests; its warnings are errors."""
    flags = ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
    command = ["cc", "-std=gnu11", "-O1", *flags, *arguments, "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


@contextmanager
def job_program_built() -> Iterator[str]:
    """The static program of `hostile.c`, where jobs of every user can run it."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-test-program-"))
    folder.chmod(0o755)
    try:
        yield str(compile_c(folder / "job", "-static", str(SOURCES / "hostile.c")))
    finally:
        shutil.rmtree(folder)


def bytes_of(count: int, seed: int) -> bytes:
    """The bytes that `bytes COUNT SEED` of the job program prints."""
    made = bytearray()
    for _ in range(count):
        seed = (seed * 1664525 + 1013904223) & 0xFFFFFFFF
        made.append(seed >> 24)
    return bytes(made)


class Node:
    """One spawner, its journal, its cgroup and one client; jobs are numbered from 1."""

    def __init__(self, *flags: str, cgroup: bool = True, user: int | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="stoker-test-"))
        self.folder.chmod(0o755)  # jobs of other users find their programs below it
        self.journal = self.folder / "journal"
        self.journal.mkdir(mode=0o700)
        self.socket = self.folder / "spawner.sock"
        self.name = f"stoker-test-{uuid.uuid4().hex[:8]}"
        self.flags = [*flags, *(["--cgroup", self.name] if cgroup else [])]
        self.user = user
        if user is not None:
            os.chown(self.folder, user, user)
            os.chown(self.journal, user, user)
        self.log = self.folder / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.spawner: Spawner
        self.events: dict[int, list[Event]] = {}
        self.jobs = 0
        self._news = asyncio.Condition()
        self._reader: asyncio.Task[None] | None = None
        self.acknowledges = True

    def command(self, *flags: str) -> list[str]:
        return [str(program("stoker-spawner")), "--journal", str(self.journal), *self.flags, *flags]

    def start_process(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command("--socket", str(self.socket)), stderr=log, user=self.user
            )

    async def open(self) -> Node:
        self.start_process()
        self.spawner = await Spawner.connect(self.socket)
        self._reader = asyncio.create_task(self._read())
        return self

    async def _read(self) -> None:
        while True:
            for event in await self.spawner.next_events():
                self.events.setdefault(event.job, []).append(event)
                if self.acknowledges:
                    await self.spawner.acknowledge(event)
            async with self._news:
                self._news.notify_all()

    def end_process(self, number: int) -> int:
        """Signal the spawner and wait for its end; jobs go on."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    async def restart(self) -> None:
        """kill -9, and a new one, as a supervisor does it."""
        before = self.spawner._transport
        self.end_process(signal.SIGKILL)
        self.start_process()
        await until(lambda: self.spawner.connected and self.spawner._transport is not before)

    @property
    def pid(self) -> int:
        """Process id of the present spawner."""
        assert self.process is not None
        return self.process.pid

    def job_folder(self, job: int) -> Path:
        path = self.folder / "jobs" / str(job)
        path.mkdir(parents=True, exist_ok=True)
        (self.folder / "jobs").chmod(0o700)
        if self.user is not None:
            os.chown(path.parent, self.user, self.user)
            os.chown(path, self.user, self.user)
        return path

    def launch(self, *argv: str, **more: Any) -> Launch:
        self.jobs += 1
        job = more.pop("job", self.jobs)
        uid = more.pop("uid", OWNER)
        given: dict[str, Any] = {
            "env": {"PATH": "/usr/bin:/bin"},
            "cwd": "/",
            "uid": uid,
            "gid": uid,
            "attempt": 1,
            "task": 0,
            "placing": 5,
            "folder": str(self.job_folder(job)),
        }
        return Launch(job=job, argv=argv, **{**given, **more})

    async def start(self, *launches: Launch) -> list[Refusal]:
        return await self.spawner.start(list(launches))

    async def prepared(self, launch: Launch) -> Prepared:
        event = await self._event(launch, Prepared)
        assert isinstance(event, Prepared)
        return event

    async def begun(self, launch: Launch) -> Started:
        event = await self._event(launch, Started)
        assert isinstance(event, Started)
        return event

    async def ended(self, launch: Launch) -> Exited:
        event = await self._event(launch, Exited)
        assert isinstance(event, Exited)
        return event

    async def _event(self, launch: Launch, kind: type[Event]) -> Event:
        def found() -> list[Event]:
            events = self.events.get(launch.job, [])
            return [e for e in events if isinstance(e, kind) and e.key == launch.key]

        async with asyncio.timeout(60), self._news:
            await self._news.wait_for(found)
        return found()[0]

    async def run(self, *argv: str, **more: Any) -> Exited:
        """Start one job and wait for its end."""
        launch = self.launch(*argv, **more)
        assert await self.start(launch) == []
        return await self.ended(launch)

    def out(self, launch: Launch | Exited, name: str = "out") -> bytes:
        path = self.folder / "jobs" / str(launch.job) / name
        return path.read_bytes() if path.exists() else b""

    def cgroups(self) -> list[str]:
        """Names of job cgroups that exist now."""
        jobs = self.spawner.jobs_cgroup
        return sorted(p.name for p in jobs.glob("*/*") if p.is_dir()) if jobs else []

    def kill_all(self) -> subprocess.CompletedProcess[str]:
        command = self.command("--kill-all")
        return subprocess.run(command, capture_output=True, text=True, check=False, user=self.user)

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await self.spawner.close()
        if self.process is not None and self.process.poll() is None:
            self.end_process(signal.SIGKILL)

    def remove(self) -> None:
        done = self.kill_all()
        left = shims_of(self.journal)
        shutil.rmtree(self.folder)
        assert done.returncode == 0, done.stderr
        assert left == []


@asynccontextmanager
async def running(*flags: str, **more: Any) -> AsyncIterator[Node]:
    """A node that is gone after the block, whatever happened in it."""
    node = Node(*flags, **more)
    try:
        yield await node.open()
    finally:
        await node.close()
        node.remove()


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition that no event tells."""
    async with asyncio.timeout(60):
        while True:
            if condition():
                return
            await asyncio.sleep(0.002)


def call(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a short program and give what it said."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


def shims_of(journal: Path) -> list[int]:
    """Processes that have this journal's slots mapped."""
    found = []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            if str(journal) in maps.read_text():
                found.append(int(maps.parent.name))
        except OSError:  # it ended meanwhile
            continue
    return found


def shim_of(pid: int) -> int:
    """The parent of a job's first process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def alive(pid: int) -> bool:
    """True if a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
