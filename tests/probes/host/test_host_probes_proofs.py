# SPDX-License-Identifier: Apache-2.0
"""Programs whose events no test can bring about a known number of times.

Where this kernel has no such event, the kernel itself runs the program a prime number of times with
known arguments (BPF_PROG_TEST_RUN; it does so with programs that are attached to nothing), and all
of it must be in the figures. Where the kernel decides how often something happens, it counts beside
the program, by its own counter of that tracepoint.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from stoker.probes.host.host_probes import HostLimits, HostProbes
from stoker.probes.host.pressure import GPU_QUEUED, GPU_RUN
from tests.probes.bpf_objects import listed
from tests.probes.groups import Groups, Job

pytestmark = [
    pytest.mark.needs_bpf,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of bpf(2) is x86-64's"),
]

Attach = Callable[..., HostProbes]
BPF, PERF_EVENT_OPEN, PROG_TEST_RUN, ARGUMENTS, INHERIT = 321, 298, 10, 12, 2
"""Numbers: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/linux/{bpf,perf_event}.h."""
PAGE = os.sysconf("SC_PAGE_SIZE")
TRACING = "/sys/kernel/tracing"
_libc = ctypes.CDLL(None, use_errno=True)


def programs() -> dict[str, int]:
    """Name -> descriptor of every BPF program that this process holds."""
    names = {each["id"]: each.get("name", "") for each in listed("prog")}
    found = {}
    for info in Path("/proc/self/fdinfo").iterdir():
        try:
            id = re.search(r"^prog_id:\s*(\d+)$", info.read_text(), re.M)
        except OSError:  # the directory's own descriptor
            continue
        if id:
            found[names[int(id[1])]] = int(info.name)
    return found


def run(fd: int, *arguments: int) -> None:
    """Have the kernel run it once, as if its event had come in this thread."""
    given = (*arguments, *[0] * (ARGUMENTS - len(arguments)))
    context = ctypes.create_string_buffer(struct.pack(f"<{ARGUMENTS}Q", *given))
    at = ctypes.addressof(context)
    attribute = struct.pack("<IIIIQQIIIIQQIII", fd, 0, 0, 0, 0, 0, 0, 0, 96, 0, at, 0, 0, 0, 0)
    raw = ctypes.create_string_buffer(attribute, 128)
    if _libc.syscall(BPF, PROG_TEST_RUN, raw, len(attribute)) < 0:
        raise OSError(ctypes.get_errno(), "BPF_PROG_TEST_RUN")


def inside(job: Job, work: Callable[[], None]) -> None:
    """Do it in a process of the job's."""
    child = os.fork()
    if not child:
        try:
            (job.path / "cgroup.procs").write_text(str(os.getpid()))
            time.sleep(0.02)  # what is never switched in is no thread of the job's
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc(file=sys.stderr)
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def run_each(fd: int, numbers: range) -> None:
    """Run each of these jobs of a device once; they are known by their address."""
    for number in numbers:
        run(fd, 4096 * number)


@pytest.mark.parametrize("names", ["", "_before_6_17"], ids=["6.17", "before"])
def test_every_job_of_a_gpu_scheduler_is_counted(
    groups: Groups, attach: Attach, names: str
) -> None:
    probes, job, other = attach(), groups.job("1.1"), groups.job("2.1")
    fds = programs()
    queue, ran, done = (fds[f"on_gpu_{what}{names}"] for what in ("queue", "run", "done"))
    if {state.state for state in probes.states if state.id == "host.gpu.queue"} == {"attached"}:
        pytest.skip("a GPU's driver is here, whose own events come as well")
    inside(job, lambda: run_each(queue, range(1, 62)))
    inside(other, lambda: run_each(queue, range(62, 99)))
    run_each(done, range(200, 207))  # fences that nobody knows
    for number in range(1, 54):
        run_each(ran, range(number, number + 1))  # by a worker of the driver, in no job
        run(done, 0)  # these jobs have no fence, so theirs is the one at address 0
    run_each(ran, range(1, 2))  # it was given to the device before
    run_each(ran, range(62, 63))
    counts = {(each.job, each.what): each.count for each in probes._tallies()}
    timed = counts.pop((job.id, GPU_RUN), 0)  # where the kernel knows what a job is made of
    assert counts == {(job.id, GPU_QUEUED): 53, (other.id, GPU_QUEUED): 1}
    assert timed in (0, 53)
    assert probes.made()["host.gpu_job"] == 61 + 37 + (timed and 53 + 1)
    assert probes.dropped()["host.gpu_job"] == 0


@pytest.mark.parametrize("room", [True, False])
def test_every_xid_is_told_or_counted_as_lost(groups: Groups, attach: Attach, room: bool) -> None:
    probes = attach() if room else attach(HostLimits(notice_ring_bytes=PAGE))
    if {state.state for state in probes.states if state.id == "host.critical.xid"} == {"attached"}:
        pytest.skip("NVIDIA's driver is here, whose own events come as well")
    xid = programs()["on_xid"]
    for _ in range(53):
        run(xid, 0, 79)
    told, lost = probes.critical(), probes.dropped()["host.xid"]
    assert {(each.kind, each.xid, each.job) for each in told} == {("xid", 79, 0)}
    assert len(told) + lost == probes.made()["host.xid"] == 53
    assert (lost == 0) == room


class Counter(AbstractContextManager["Counter"]):
    """The kernel's own count of a tracepoint in this process and in what it starts meanwhile."""

    def __init__(self, event: str) -> None:
        # Where it is mounted already, a second mount is refused.
        script = f"mount -t tracefs none {TRACING}; cat {TRACING}/{event}/id"
        ask = ["unshare", "-m", "sh", "-c", script]
        number = subprocess.run(ask, capture_output=True, check=False).stdout
        if not number:
            pytest.skip(f"this kernel does not say the number of {event}")
        attribute = struct.pack("<IIQQQQQ", 2, 64, int(number), 0, 0, 0, INHERIT)
        raw = ctypes.create_string_buffer(attribute, 64)
        self._fd = _libc.syscall(PERF_EVENT_OPEN, raw, 0, -1, -1, 8)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), f"perf_event_open of {event}")

    def read(self) -> int:
        """Return how often it happened up to now, in processes that have ended or are this one."""
        return int.from_bytes(os.read(self._fd, 8), "little")

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def test_reclaim_is_counted_as_the_kernel_counts_it(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    prefix = groups.limit_memory(job, 16 << 20)
    with Counter("events/vmscan/mm_vmscan_memcg_reclaim_end") as truth:
        assert job.start("fill", 64, prefix).wait(30) == 128 + signal.SIGKILL
        happened = truth.read()
    reclaim = probes.pressure(job.id).group_reclaim
    assert reclaim is not None
    assert reclaim.count == happened > 0
