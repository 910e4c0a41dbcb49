# SPDX-License-Identifier: Apache-2.0
"""Stacks of waits: every long wait of a thread that blocks seldom, a fair draw of one that does
not, and names for what is found.
"""

from __future__ import annotations

import os
import re
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.probes.host.host_probes import HostLimits, HostProbes
from stoker.probes.host.wait_stacks import Symbols, process_maps
from tests.probes.groups import CLOCK_NANOSLEEP, Groups, eventually
from tests.probes.host.test_pressure import pid_of, state_of

needs_bpf = pytest.mark.needs_bpf

Attach = Callable[..., HostProbes]


@needs_bpf
def test_every_long_wait_is_found_where_it_was(groups: Groups, attach: Attach) -> None:
    probes, job, silent = attach(), groups.job("1.1"), groups.job("2.1")
    assert probes.stack_waits(job.id) == []
    running = job.start("nap-each", 23)
    pid = pid_of(job)
    probes.opt_in(job.id, stacks=True)
    assert state_of(probes, "host.sched.stack") == "attached"
    assert silent.run("nap", 20) == 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nivcsw
    os.kill(pid, signal.SIGCONT)
    assert running.wait(30) == 0
    # A thread that loses its CPU on the way to sleep may find its time over: it never blocked.
    preempted = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nivcsw - before
    naps = [wait for wait in probes.stack_waits(job.id) if wait.system_call == CLOCK_NANOSLEEP]
    blocked = sum(wait.count for wait in naps)
    assert max(1, 23 - preempted) <= blocked <= 23
    assert blocked == sum(wait.seen for wait in naps)
    assert sum(wait.total_ns for wait in naps) >= (blocked - preempted) * 5_000_000
    assert {wait.pid for wait in naps} == {pid}
    assert all(5_000_000 <= wait.longest_ns <= wait.total_ns for wait in naps) or preempted
    assert "schedule" in naps[0].kernel[0]
    assert any("nanosleep" in name for name in naps[0].kernel)
    assert len(naps[0].user) >= 1
    assert probes.stack_waits(silent.id) == []
    assert probes.dropped()["host.stack"] == 0
    probes.opt_in(job.id)
    assert probes.stack_waits(job.id) == []


@needs_bpf
def test_frames_of_a_living_program_are_told_by_file(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    job.start("nap-each", 100_000)
    pid = pid_of(job)
    probes.opt_in(job.id, stacks=True)
    os.kill(pid, signal.SIGCONT)
    eventually(lambda: probes.stack_waits(job.id) != [])
    frames = probes.stack_waits(job.id)[0].user
    assert any(re.fullmatch(r"/\S+\+0x[0-9a-f]+", frame) for frame in frames)


@needs_bpf
def test_a_busy_waiters_draw_stands_for_all(groups: Groups, attach: Attach) -> None:
    probes, job = attach(HostLimits(stack_ns=0)), groups.job()
    probes.opt_in(job.id, stacks=True)
    assert job.run("pingpong", 20_000) == 0
    waits = probes.stack_waits(job.id, 4096)
    seen, stood_for = sum(w.seen for w in waits), sum(w.count for w in waits)
    times = probes.read(job.id).totals
    assert times is not None
    assert seen < times.wakeups * 3 / 4  # many were not looked at; how many depends on its speed
    assert stood_for == pytest.approx(times.wakeups, rel=0.35)
    assert probes.dropped()["host.stack_wait"] == 0


def test_symbols_of_the_kernel(tmp_path: Path) -> None:
    table = tmp_path / "kallsyms"
    table.write_text("ffff20 T later\nffff10 t first\nffff40 t module_one\t[nvidia]\n")
    symbols = Symbols(kernel=table)
    assert [symbols.of_kernel(each) for each in (0xFFFF10, 0xFFFF1F, 0xFFFF2A, 0xFFFF99)] == [
        "first",
        "first",
        "later",
        "module_one",
    ]
    assert symbols.of_kernel(0x5) == "0x5"
    table.write_text("0000000000000000 T hidden\n")
    assert Symbols(kernel=table).of_kernel(0xFFFF10) == "0xffff10"
    assert Symbols(kernel=tmp_path / "none").of_kernel(0xFFFF10) == "0xffff10"


def test_frames_of_a_process(tmp_path: Path) -> None:
    (tmp_path / "41").mkdir()
    (tmp_path / "41/maps").write_text(
        "1000-3000 r-xp 00002000 fe:00 77   /opt/a lib.so\n"
        "3000-4000 rw-p 00000000 00:00 0 \n"
        "4000-5000 rw-p 00000000 00:00 0   [heap]\n"
    )
    symbols = Symbols(proc=tmp_path)
    assert symbols.of_process(41, 0x1234) == "/opt/a lib.so+0x2234"
    assert symbols.of_process(41, 0x3000) == "0x3000"
    assert symbols.of_process(42, 0x1234) == "0x1234"  # it is gone
    with (tmp_path / "41/maps").open("a") as maps:  # it loads one more library
        maps.write("7000-8000 r-xp 00000000 fe:00 78   /opt/late.so\n")
    assert symbols.of_process(41, 0x7010) == "/opt/late.so+0x10"
    (tmp_path / "41/maps").unlink()
    assert symbols.of_process(41, 0x1234) == "/opt/a lib.so+0x2234"  # kept
    assert process_maps(tmp_path / "42/maps") == []
