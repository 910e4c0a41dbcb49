# SPDX-License-Identifier: Apache-2.0
"""The agent's end of the probes over calls: processes by cgroup, rows by name, states for the
doctor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.agent.tracing.cgroup_processes import processes_of
from stoker.agent.tracing.job_calls import JobCalls
from stoker.probes.calls import site_report
from stoker.probes.calls.trap_cost import ELSEWHERE, TrapCosts, boot_id, save
from stoker.probes.cost.cost_budget import GovernorAction
from stoker.probes.doctor.site_doctor import COSTS_FILE
from stoker.probes.host.host_probes import cgroup_id
from stoker.scheduler.nouns import TaskKey
from tests.probes.gpu_jobs import Caller, compile_caller, compile_library
from tests.probes.groups import cgroup2_mount, eventually, require_root

KEY = TaskKey(5, 1, 0)
LAUNCH, GRAPH = "cuda.cuLaunchKernel", "cuda.cuGraphLaunch"
REDUCE = "nccl.ncclAllReduce"


@pytest.fixture
def jobs() -> Iterator[Path]:
    """A cgroup for jobs with one job in it, and a group below that."""
    require_root()
    made = cgroup2_mount() / f"stoker-test-calls-{os.getpid()}"
    job = made / "fenced" / "5.1.0"
    folders = [made, job.parent, job, job / "inner"]
    for folder in folders:
        folder.mkdir()
    yield made
    for folder in reversed(folders):
        eventually(lambda folder=folder: "populated 0" in (folder / "cgroup.events").read_text())
        folder.rmdir()


@pytest.mark.needs_bpf
def test_a_job_is_watched_from_its_beginning_to_its_end(jobs: Path, tmp_path: Path) -> None:
    cheap = dict.fromkeys(ELSEWHERE.both_ns, 10)  # so that all is attached
    save(tmp_path / COSTS_FILE, TrapCosts(cheap, cheap, "x", boot_id()))
    library = compile_library(tmp_path / "libcuda.so.1")
    caller = Caller(compile_caller(tmp_path / "caller"))
    (jobs / "fenced/5.1.0/inner" / "cgroup.procs").write_text(str(caller.pid))
    assert processes_of(jobs / "fenced/5.1.0") == [caller.pid]
    job = cgroup_id(jobs / "fenced/5.1.0")
    calls = JobCalls(jobs, tmp_path)
    assert "just now" in calls.absent
    calls.start()
    try:
        calls.begin(KEY, job)
        caller.tell("open", library)
        eventually(lambda: any(site.id == LAUNCH for site in calls.readings(job)))
        eventually(lambda: _told(tmp_path, LAUNCH) == "attached")
        assert calls.counted(job)
        caller.tell("call", "cuLaunchKernel", 1_009)
        (row,) = calls.rows(job)
        assert (row.name, row.count, row.open) == (LAUNCH, 1_009, 0)
        assert row.seen > 0
        assert calls.absent == ""
        calls.obey(job, GovernorAction("sample", GRAPH, 20_000, "over budget"))
        eventually(lambda: _told(tmp_path, GRAPH) == "sampled")
        calls.obey(job, GovernorAction("detach", LAUNCH, 0, "over budget"))
        eventually(lambda: _told(tmp_path, LAUNCH) == "off")
        caller.end()
        eventually(lambda: processes_of(jobs / "fenced/5.1.0") == [])
        rows = {row.name: (row.count, row.note) for row in calls.rows(job)}
        assert rows[LAUNCH] == (1_009, "")  # until its end
        assert rows[GRAPH] == (0, "sampled, saw none")
        assert set(calls.dropped().values()) == set(calls.lost(job).values()) == {0}
        assert calls.unseen(job) == {}
        calls.end(job)
        assert calls.rows(job) == () and not calls.counted(job)
    finally:
        calls.close()
        caller.end()
    assert not (tmp_path / site_report.FILE).exists()


@pytest.mark.needs_bpf
def test_waiting_is_unknown_for_calls_of_nccl_and_for_no_others(jobs: Path, tmp_path: Path) -> None:
    cheap = dict.fromkeys(ELSEWHERE.both_ns, 10)  # so that all is attached
    save(tmp_path / COSTS_FILE, TrapCosts(cheap, cheap, "x", boot_id()))
    library = compile_library(tmp_path / "libnccl.so.2")
    caller = Caller(compile_caller(tmp_path / "caller"))
    (jobs / "fenced/5.1.0/inner" / "cgroup.procs").write_text(str(caller.pid))
    job = cgroup_id(jobs / "fenced/5.1.0")
    calls = JobCalls(jobs, tmp_path)
    calls.start()
    try:
        calls.begin(KEY, job)
        caller.tell("open", library)
        eventually(lambda: _told(tmp_path, REDUCE) == "attached")
        assert calls.untold(job) == ""  # a library that is loaded and not called costs no answer
        caller.tell("call", "ncclAllReduce", 7)
        assert calls.untold(job).startswith(f"{REDUCE}: ")
    finally:
        calls.close()
        caller.end()


@pytest.mark.needs_bpf
def test_a_library_that_cannot_be_probed_is_named_in_the_jobs_trace(
    jobs: Path, tmp_path: Path
) -> None:
    save(tmp_path / COSTS_FILE, TrapCosts({}, {}, "x", boot_id()))
    broken = tmp_path / "libcuda.so.1"
    broken.write_bytes(b"no library" * 1000)
    caller = Caller(compile_caller(tmp_path / "caller"))
    (jobs / "fenced/5.1.0" / "cgroup.procs").write_text(str(caller.pid))
    job = cgroup_id(jobs / "fenced/5.1.0")
    calls = JobCalls(jobs, tmp_path)
    calls.start()
    try:
        calls.begin(KEY, job)
        caller.tell("map", broken)
        eventually(lambda: "no ELF file" in calls.unseen(job).get(f"calls of {broken}", ""))
        caller.end()
        assert set(calls.unseen(job)) == {f"calls of {broken}"}  # even after its process is gone
        calls.end(job)
        assert calls.unseen(job) == {}
    finally:
        calls.close()
        caller.end()


def _told(folder: Path, id: str) -> str:
    report = site_report.load(folder / site_report.FILE)
    return next((s.state for s in report.states if s.id == id), "") if report else ""


def test_the_first_job_wakes_the_thread_that_rests_without_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, hurried = JobCalls(tmp_path, tmp_path), list[int]()
    monkeypatch.setattr(calls._watch, "hurry", lambda: hurried.append(len(calls._groups)))
    calls.begin(KEY, 1)
    calls.begin(KEY, 2)
    assert hurried == [1], "after the job is known, and once"
