# SPDX-License-Identifier: Apache-2.0
"""Process events: every exec, fork and exit of a job, and nothing twice."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.probes.host.host_probes import HostLimits, HostProbes
from stoker.probes.host.host_records import ProcessEvent
from tests.probes.groups import Groups, eventually

pytestmark = pytest.mark.needs_bpf

Attach = Callable[..., HostProbes]


def kinds(events: list[ProcessEvent]) -> Counter[str]:
    return Counter(event.kind for event in events)


def test_every_exec_and_exit_is_seen_once(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    assert job.run("children", 23) == 0
    events = probes.process_events()
    assert kinds(events) == {"fork": 24, "exec": 24, "exit": 24}
    assert {event.job for event in events} == {job.id}
    assert len({event.pid for event in events}) == 24
    for pid in {event.pid for event in events}:
        mine = [event for event in events if event.pid == pid]
        assert next(event.kind for event in mine if event.kind != "fork") == "exec"
        assert (mine[0].kind, mine[-1].kind) == ("fork", "exit")
        assert len({event.start_boot_ns for event in mine}) == 1
        assert [event.t_ns for event in mine] == sorted(event.t_ns for event in mine)
    assert {event.comm for event in events if event.kind == "exec"} == {"workload"}
    assert probes.process_events() == []


def test_parents_and_starts_are_those_of_proc(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    parent = job.start("nap", 60_000)
    eventually(lambda: len(probes.read(job.id).threads) == 1)
    fork = probes.process_events()[0]
    fields = Path(f"/proc/{fork.pid}/stat").read_text().rsplit(")", 1)[1].split()
    assert (fork.kind, fork.parent_pid, int(fields[1])) == ("fork", parent.pid, parent.pid)
    assert fork.start_boot_ns // (10**9 // os.sysconf("SC_CLK_TCK")) == int(fields[19])


@pytest.mark.parametrize("code", [0, 7, 255])
def test_an_exit_code_is_reported(groups: Groups, attach: Attach, code: int) -> None:
    probes, job = attach(), groups.job()
    assert job.run("leave", code) == code
    (exit_,) = [event for event in probes.process_events() if event.kind == "exit"]
    assert (exit_.exit_code, exit_.signal, exit_.oom_killed) == (code, None, False)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_is_reported(groups: Groups, attach: Attach, number: int) -> None:
    probes, job = attach(), groups.job()
    assert job.run("die", number) == 128 + number
    (exit_,) = [event for event in probes.process_events() if event.kind == "exit"]
    assert (exit_.exit_code, exit_.signal, exit_.oom_killed) == (None, number, False)


def test_threads_are_told_from_processes(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    assert job.run("threads", 40) == 0
    events = probes.process_events()
    assert kinds(events) == {"fork": 1, "exec": 1, "thread": 40, "thread_exit": 40, "exit": 1}
    assert len({event.tid for event in events if event.kind == "thread"}) == 40
    assert len({event.pid for event in events}) == 1


def test_thread_events_never_crowd_out_processes(groups: Groups, attach: Attach) -> None:
    probes, job = attach(HostLimits(event_ring_bytes=8192)), groups.job()
    assert job.run("threads", 400) == 0
    assert job.run("children", 5) == 0
    seen = kinds(probes.process_events())
    assert (seen["exec"], seen["exit"]) == (7, 7)
    dropped, made = probes.dropped(), probes.made()
    assert dropped["host.thread_event"] > 0
    assert dropped["host.process_event"] == 0
    delivered = seen["thread"] + seen["thread_exit"]
    assert made["host.thread_event"] == delivered + dropped["host.thread_event"] == 800


def test_an_out_of_memory_kill_is_named(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    prefix = groups.limit_memory(job, 16 << 20)
    assert job.start("fill", 64, prefix).wait(30) == 128 + signal.SIGKILL
    (exit_,) = [event for event in probes.process_events() if event.kind == "exit"]
    assert (exit_.signal, exit_.oom_killed) == (signal.SIGKILL, True)
