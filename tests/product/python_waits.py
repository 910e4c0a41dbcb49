# SPDX-License-Identifier: Apache-2.0
"""A job that waits as Python programs do: `python_waits.py ROUNDS WAY:MS...`.

Each round does every way for so long, in order, and ends with one short launch that it waits for.
It prints what the kernel says of its launching thread for each way, as one JSON object.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyopencl as cl

BLOCK = 1 << 20
FILE = 32 * BLOCK
FIELDS = ("wall_ns", "cpu_ns", "runnable_ns", "system_ns", "switches")
SOURCE = "__kernel void add(__global float *x) { x[get_global_id(0)] += 1; }"


def truth(schedstat: int) -> list[int]:
    """Return wall, CPU and run-queue time of this thread, its time in the kernel, its switches."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    runnable = int(os.pread(schedstat, 128, 0).split()[1])
    switches = usage.ru_nvcsw + usage.ru_nivcsw
    cpu = time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID)
    return [time.monotonic_ns(), cpu, runnable, int(usage.ru_stime * 1e9), switches]


def until(ms: float, step: Callable[[], object]) -> None:
    end = time.monotonic_ns() + ms * 1e6
    while time.monotonic_ns() < end:
        step()


def work(ms: float) -> None:
    """Use so much CPU time, however long that takes."""
    end = time.thread_time_ns() + ms * 1e6
    while time.thread_time_ns() < end:
        pass


class Peer:
    """A process behind a socket that answers when it has slept, or worked, for as long as asked."""

    def __init__(self, does: Callable[[float], None]) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.here = socket.create_connection(listening.getsockname())
        there, _ = listening.accept()
        if os.fork():
            return
        self.here.close()
        while asked := there.recv(32):
            does(float(asked))
            there.send(b"1")
        os._exit(0)

    def __call__(self, ms: float) -> None:
        self.here.send(b"%g" % ms)
        self.here.recv(1)


class Disk:
    """A file that is read past the page cache, or into a page cache that has forgotten it."""

    def __init__(self) -> None:
        file, path = tempfile.mkstemp(dir="/var/tmp")
        self.cached, self.direct = file, os.open(path, os.O_RDONLY | os.O_DIRECT)
        Path(path).unlink()
        for _ in range(FILE // BLOCK):
            os.write(file, bytes(BLOCK))
        os.fsync(file)
        self.block, self.at = mmap.mmap(-1, BLOCK), 0

    def next(self) -> int:
        self.at = (self.at + BLOCK) % FILE
        return self.at

    def read_direct(self, ms: float) -> None:
        until(ms, lambda: os.preadv(self.direct, [self.block], self.next()))

    def read_cold(self, ms: float) -> None:
        def one() -> None:
            os.posix_fadvise(self.cached, 0, 0, os.POSIX_FADV_DONTNEED)
            os.preadv(self.cached, [self.block], self.next())

        until(ms, one)


class Rival:
    """Another thread of Python's that computes while it is told to, and so holds the GIL."""

    def __init__(self) -> None:
        self.told = threading.Event()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        while True:
            self.told.wait()
            sum(range(100))

    def __call__(self, ms: float) -> None:
        self.told.set()
        until(ms, lambda: time.sleep(0))
        self.told.clear()


def fresh(ms: float) -> None:
    """Write to pages that were never touched before."""

    def one() -> None:
        pages = mmap.mmap(-1, 4 * BLOCK)
        ctypes.memset((ctypes.c_char * len(pages)).from_buffer(pages), 1, len(pages))

    until(ms, one)


def ways(named: set[str]) -> dict[str, Callable[[float], None]]:
    """Return what the ways named need, made before OpenCL starts threads."""
    found: dict[str, Callable[[float], None]] = {"fresh": fresh, "work": work}
    found["sleep"] = lambda ms: time.sleep(ms / 1e3)
    if "socket" in named:
        found["socket"] = Peer(lambda ms: time.sleep(ms / 1e3))
    if "served" in named:
        found["served"] = Peer(work)
    if named & {"direct", "cold"}:
        disk = Disk()
        found |= {"direct": disk.read_direct, "cold": disk.read_cold}
    if "gil" in named:
        found["gil"] = Rival()
    return found


def main() -> None:
    rounds, asked = int(sys.argv[1]), [word.split(":") for word in sys.argv[2:]]
    known = ways({way for way, _ in asked})
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    kernel = cl.Kernel(cl.Program(context, SOURCE).build(), "add")
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
    schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    phases = {way: [0] * len(FIELDS) for way, _ in asked}
    first = truth(schedstat)
    for _ in range(rounds):
        for way, ms in asked:
            before = truth(schedstat)
            known[way](float(ms))
            after = truth(schedstat)
            phases[way] = [p + b - a for p, a, b in zip(phases[way], before, after, strict=True)]
        kernel(queue, (1,), None, buffer)
        queue.finish()
    last = truth(schedstat)
    told = {"first": first, "last": last, **phases}
    print(json.dumps({way: dict(zip(FIELDS, all_, strict=True)) for way, all_ in told.items()}))
    sys.stdout.flush()
    os._exit(0)


main()
