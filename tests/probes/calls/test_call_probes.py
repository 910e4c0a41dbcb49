# SPDX-License-Identifier: Apache-2.0
"""Calls into stand-ins for GPU libraries: known numbers of them, exactly counted, whatever befalls
the library's file meanwhile."""

from __future__ import annotations

import os
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.probes.calls import call_probes
from stoker.probes.calls.call_probes import LOOK_MAX_NS, LOOK_NS, RETRY_NS, CallProbes
from stoker.probes.calls.call_records import CallLimits, CallState
from stoker.probes.calls.call_targets import TARGETS
from stoker.probes.calls.call_windows import CYCLE_NS
from stoker.probes.calls.library_copies import Copy
from stoker.probes.calls.prologue import Trap
from stoker.probes.calls.trap_cost import ELSEWHERE, TrapCosts
from stoker.probes.cost.cost_budget import GovernorAction
from tests.probes.gpu_jobs import DEARLY, Caller, compile_caller, compile_library
from tests.probes.groups import require_root, ring_bytes

pytestmark = pytest.mark.needs_bpf

JOB = 7
ALL = CallLimits(budget_ppm=DEARLY)

FEW = {
    "cuLaunchKernel",
    "cuMemAlloc",
    "cuGraphLaunch",
    "cuStreamSynchronize",
    "cuCtxSynchronize",
    "cuModuleLoadData",
}

Open = Callable[..., CallProbes]
Start = Callable[..., Caller]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls")
    compile_library(folder / "libcuda.so.1")
    compile_library(folder / "newer.so", "-DNEWER")
    compile_caller(folder / "caller")
    return folder


@pytest.fixture
def library(built: Path, tmp_path: Path) -> Path:
    """A copy of this test's own, so that inodes of other tests do not matter."""
    return Path(shutil.copy(built / "libcuda.so.1", tmp_path / "libcuda.so.1"))


@pytest.fixture
def start(built: Path) -> Iterator[Start]:
    started: list[Caller] = []

    def start_now(library: Path | None = None, *prefix: str) -> Caller:
        caller = Caller(built / "caller", *prefix)
        started.append(caller)
        if library is not None:
            caller.tell("open", library)
        return caller

    yield start_now
    for caller in started:
        caller.end()


@pytest.fixture(params=[False, True], ids=["grouped", "one-by-one"])
def open_probes(request: pytest.FixtureRequest) -> Iterator[Open]:
    yield from _open(request.param)


@pytest.fixture
def open_grouped() -> Iterator[Open]:
    yield from _open(False)


def _open(one_by_one: bool) -> Iterator[Open]:
    require_root()
    opened: list[CallProbes] = []

    def open_now(limits: CallLimits = ALL, costs: TrapCosts = ELSEWHERE) -> CallProbes:
        few = [target for target in TARGETS if target.symbol in FEW]
        targets = few if one_by_one else TARGETS  # detaching takes its time for each of them
        probes = CallProbes(costs, limits, targets=targets, one_by_one=one_by_one, seed=1)
        opened.append(probes)
        assert probes.load().state == "attached", probes.probe.reason
        return probes

    yield open_now
    for probes in opened:
        probes.close()


def states(probes: CallProbes) -> dict[str, CallState]:
    return {state.id: state for state in probes.states()}


def watch(probes: CallProbes, *callers: Caller) -> None:
    """All that has sites is attached in these processes, and only there."""
    probes.want({JOB: [caller.pid for caller in callers]})
    for process in [p for job in probes._jobs.values() for p in job.processes.values()]:
        process.look_at = 0  # as if their time had come
    probes.look()


def entered(probes: CallProbes) -> dict[str, int]:
    return {id: times.entered for id, times in probes.read(JOB).items()}


COUNTS = {
    "cuLaunchKernel": 10_007,
    "cuMemAlloc_v2": 1_009,
    "cuGraphLaunch": 499,
    "cuStreamSynchronize": 211,
    "cuCtxSynchronize": 101,
    "cuModuleLoadData": 53,
}
"""Function of the stand-in -> a prime number of calls; every kind of first instruction is there."""


def test_counted_calls_make_no_ring_of_records(
    open_grouped: Open, start: Start, library: Path
) -> None:
    """Only calls for which ranks wait are told one by one."""
    before = ring_bytes()
    probes, caller = open_grouped(), start(library)
    watch(probes, caller)
    caller.tell("call", "cuLaunchKernel", 5)
    assert entered(probes)["cuda.cuLaunchKernel"] == 5
    assert ring_bytes() - before < 1 << 20  # the ring has four times as much


def test_calls_are_counted_exactly(open_probes: Open, start: Start, library: Path) -> None:
    probes, callers = open_probes(), [start(library), start(library)]
    beside = start(library)
    watch(probes, *callers)
    for name, count in COUNTS.items():
        callers[0].tell("threads", name, count)
        callers[1].tell("call", name, count)
        beside.tell("call", name, count)  # another job's: nobody asked
    callers[1].tell("call", "cuLaunchKernel_ptsz", 997)
    callers[1].tell("call", "cuMemAlloc", 31)
    expected = {f"cuda.{name.removesuffix('_v2')}": 5 * count for name, count in COUNTS.items()}
    expected["cuda.cuLaunchKernel"] += 997
    expected["cuda.cuMemAlloc"] += 31
    assert entered(probes) == expected
    for times in probes.read(JOB).values():
        assert times.returned == times.entered == sum(times.log2)
        assert times.total_ns >= times.longest_ns > 0
    by_process = probes.read_processes(JOB)
    assert set(by_process) == {caller.pid for caller in callers}
    assert by_process[callers[0].pid]["cuda.cuGraphLaunch"].entered == 4 * 499
    assert set(probes.dropped().values()) == {0}


def test_latencies_are_those_of_the_calls(open_grouped: Open, start: Start, library: Path) -> None:
    probes, caller = open_grouped(), start(library)
    watch(probes, caller)
    caller.tell("call", "cuEventSynchronize", 13)
    times = probes.read(JOB)["cuda.cuEventSynchronize"]
    assert times.returned == 13
    assert times.longest_ns >= times.total_ns / 13 >= 2_000_000
    assert sum(times.log2[20:]) == 13  # 2 ms is in [2^20, 2^21) ns
    assert times.log2.index(max(times.log2)) in (20, 21, 22)


def test_a_call_inside_of_a_call_counts_for_both(
    open_grouped: Open, start: Start, library: Path
) -> None:
    probes, caller = open_grouped(), start(library)
    watch(probes, caller)
    caller.tell("call", "cuMemcpyAsync", 307)
    read = probes.read(JOB)
    outer, inner = read["cuda.cuMemcpyAsync"], read["cuda.cuMemcpyHtoDAsync"]
    assert (outer.entered, outer.returned, inner.entered, inner.returned) == (307,) * 4
    assert outer.total_ns > inner.total_ns


def test_calls_too_deep_are_counted_and_their_times_lost_by_name(
    open_grouped: Open, start: Start, library: Path
) -> None:
    probes, caller = open_grouped(), start(library)
    watch(probes, caller)
    caller.tell("deep", "cuMemMap", 8)
    assert probes.read(JOB)["cuda.cuMemMap"].returned == 8
    assert set(probes.dropped().values()) == {0}
    caller.tell("deep", "cuMemMap", 11)
    times, lost = probes.read(JOB)["cuda.cuMemMap"], probes.dropped()
    assert times.entered == 8 + 11
    assert times.entered - times.returned == lost["calls.stray"] > 0
    assert lost["calls.frame"] > 0
    caller.tell("call", "cuLaunchKernel", 5)  # and the thread goes on as if nothing had been
    assert probes.read(JOB)["cuda.cuLaunchKernel"].returned == 5


def test_what_ended_processes_did_is_kept(open_grouped: Open, start: Start, library: Path) -> None:
    probes, first, second = open_grouped(), start(library), start(library)
    watch(probes, first, second)
    first.tell("call", "cuLaunchKernel", 101)
    second.tell("call", "cuLaunchKernel", 7)
    first.end()
    assert entered(probes) == {"cuda.cuLaunchKernel": 108}
    watch(probes, second)
    assert entered(probes) == {"cuda.cuLaunchKernel": 108}
    assert set(probes.read_processes(JOB)) == {second.pid}
    second.tell("call", "cuLaunchKernel", 2)
    assert entered(probes) == {"cuda.cuLaunchKernel": 110}
    probes.want({})
    probes.look()
    assert entered(probes) == {}
    second.tell("call", "cuLaunchKernel", 3)
    watch(probes, second)  # the number comes back: nothing of before is there
    assert entered(probes) == {}


def test_a_job_in_another_mount_namespace_is_seen(
    open_grouped: Open, start: Start, library: Path, tmp_path: Path
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    script = f'mount -t tmpfs none {inside} && cp {library} {inside}/ && exec "$0"'
    caller = start(None, "unshare", "--mount", "--propagation", "private", "sh", "-c", script)
    caller.tell("open", inside / "libcuda.so.1")
    assert not (inside / "libcuda.so.1").exists()  # here it is not
    probes = open_grouped()
    watch(probes, caller)
    assert states(probes)["cuda.cuLaunchKernel"].state == "attached"
    caller.tell("call", "cuLaunchKernel", 1_013)
    assert entered(probes) == {"cuda.cuLaunchKernel": 1_013}


def test_a_deleted_library_is_still_what_runs(
    open_probes: Open, start: Start, library: Path
) -> None:
    caller = start(library)
    library.unlink()
    probes = open_probes()
    watch(probes, caller)
    state = states(probes)["cuda.cuLaunchKernel"]
    assert (state.state, state.processes) == ("attached", 1)
    assert state.library.endswith("(deleted, still mapped)")
    caller.tell("call", "cuLaunchKernel", 613)
    assert entered(probes) == {"cuda.cuLaunchKernel": 613}


def test_a_library_replaced_while_attached(
    open_grouped: Open, start: Start, library: Path, built: Path
) -> None:
    """A process that mapped the old library keeps it, a later one gets the new: both count."""
    probes, old = open_grouped(), start(library)
    watch(probes, old)
    shutil.copy(built / "newer.so", library.with_name("new"))
    library.with_name("new").replace(library)
    new = start(library)
    watch(probes, old, new)
    assert len({state.library for state in probes.states()}) == 2
    old.tell("call", "cuLaunchKernel", 103)
    new.tell("call", "cuLaunchKernel", 211)
    new.tell("call", "cuMemAlloc", 17)
    assert entered(probes) == {"cuda.cuLaunchKernel": 314, "cuda.cuMemAlloc": 17}
    old.tell("close", "it")
    old.tell("open", library)
    watch(probes, old, new)
    assert len({state.library for state in probes.states()}) == 1
    old.tell("call", "cuLaunchKernel", 5)
    assert entered(probes)["cuda.cuLaunchKernel"] == 319
    assert states(probes)["cuda.cuLaunchKernel"].processes == 2


def test_a_library_overwritten_in_place_is_read_again(
    open_grouped: Open, start: Start, library: Path, built: Path
) -> None:
    probes, caller = open_grouped(), start(library)
    watch(probes, caller)
    caller.tell("close", "it")
    watch(probes, caller)  # a site that stayed attached would hit the middle of other code
    library.write_bytes((built / "newer.so").read_bytes())  # the same inode, other addresses
    caller.tell("open", library)
    watch(probes, caller)
    caller.tell("call", "cuLaunchKernel", 109)
    caller.tell("call", "cuGraphLaunch", 3)
    assert entered(probes) == {"cuda.cuLaunchKernel": 109, "cuda.cuGraphLaunch": 3}


def test_damaged_and_32_bit_files_are_told_of_and_the_good_one_goes_on(
    open_grouped: Open, start: Start, library: Path, tmp_path: Path
) -> None:
    narrow = bytearray(library.read_bytes())
    narrow[4] = 1
    cut = library.read_bytes()[: struct.unpack_from("<Q", library.read_bytes(), 40)[0] // 3]
    for name, data in (("narrow", narrow), ("cut", cut), ("none", b"nothing\n" * 600)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "libcuda.so.1").write_bytes(data)
    caller = start(library)
    for name in ("narrow", "cut", "none"):
        caller.tell("map", tmp_path / name / "libcuda.so.1")
    probes = open_grouped()
    watch(probes, caller)
    said = {
        Path(state.library).parent.name: (state.state, state.reason)
        for state in probes.states()
        if state.id == "cuda.cuLaunchKernel"
    }
    assert said[tmp_path.name][0] == "attached"
    assert said["narrow"][0] == "unknown"
    assert "not a 64-bit" in said["narrow"][1]
    assert said["cut"][0] in ("unknown", "absent")
    assert said["none"][0] == "unknown"
    assert "no ELF file" in said["none"][1]
    caller.tell("call", "cuLaunchKernel", 307)
    assert entered(probes) == {"cuda.cuLaunchKernel": 307}


def test_mappings_that_take_long_to_read_are_read_seldom(
    open_grouped: Open, start: Start, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job can have 65,530 mappings in each process, and change them all the time."""
    probes, caller = open_grouped(), start(library)

    def slow(pid: int, prefixes: object) -> list[Copy]:
        end = time.thread_time_ns() + 50_000_000
        while time.thread_time_ns() < end:
            pass
        return []

    monkeypatch.setattr(call_probes, "copies_of", slow)
    before = time.monotonic_ns()
    watch(probes, caller)
    (process,) = probes._jobs[JOB].processes.values()
    assert process.look_at >= before + 20 * 50_000_000


def test_a_stripped_library_is_as_good(
    open_grouped: Open, start: Start, built: Path, tmp_path: Path
) -> None:
    stripped = compile_library(tmp_path / "libcuda.so.1", "-s")
    probes, caller = open_grouped(), start(stripped)
    watch(probes, caller)
    caller.tell("call", "cuLaunchKernel", 401)
    assert entered(probes) == {"cuda.cuLaunchKernel": 401}


def test_nccl_is_another_library(open_grouped: Open, start: Start, library: Path) -> None:
    nccl = library.rename(library.with_name("libnccl.so.2"))
    probes, caller = open_grouped(), start(nccl)
    watch(probes, caller)
    caller.tell("call", "ncclAllReduce", 41)
    caller.tell("call", "ncclGroupEnd", 43)
    caller.tell("call", "cuLaunchKernel", 47)  # of the driver's library only
    assert entered(probes) == {"nccl.ncclAllReduce": 41, "nccl.ncclGroupEnd": 43}


def test_what_the_governor_takes_away_is_not_counted(
    open_grouped: Open, start: Start, library: Path
) -> None:
    probes, caller = open_grouped(), start(library)
    watch(probes, caller)
    caller.tell("call", "cuLaunchKernel", 11)
    probes.set_share(JOB, "cuda.cuLaunchKernel", 0, "too dear")
    watch(probes, caller)
    caller.tell("call", "cuLaunchKernel", 100)
    caller.tell("call", "cuGraphLaunch", 13)  # others go on
    assert entered(probes) == {"cuda.cuLaunchKernel": 11, "cuda.cuGraphLaunch": 13}
    state = states(probes)["cuda.cuLaunchKernel"]
    assert (state.state, state.reason, state.processes) == ("off", "too dear", 0)
    probes.set_share(JOB, "cuda.cuLaunchKernel", 1_000_000, "it fits")
    watch(probes, caller)
    caller.tell("call", "cuLaunchKernel", 1)
    assert entered(probes)["cuda.cuLaunchKernel"] == 12


def test_a_sampled_site_is_attached_in_its_windows_alone(
    open_grouped: Open, start: Start, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes, caller = open_grouped(), start(library)
    now = [CYCLE_NS * 5]
    monkeypatch.setattr(probes, "_clock_ns", lambda: now[0])
    watch(probes, caller)
    probes.obey(JOB, GovernorAction("sample", "cuda.cuLaunchKernel", 200_000, "too dear"))
    counted = []
    for _ in range(20):  # half a second each, through one cycle
        watch(probes, caller)
        before = entered(probes).get("cuda.cuLaunchKernel", 0)
        caller.tell("call", "cuLaunchKernel", 11)
        counted.append(entered(probes).get("cuda.cuLaunchKernel", 0) - before)
        now[0] += CYCLE_NS // 20
    assert set(counted) == {0, 11}
    windows = counted.count(11)
    assert 3 <= windows <= 5  # a fifth of the time
    first = counted.index(11)
    assert counted[first : first + windows] == [11] * windows  # in one piece
    assert states(probes)["cuda.cuLaunchKernel"].state == "sampled"
    readings = {reading.id: reading for reading in probes.site_readings(JOB)}
    launch, graph = readings["cuda.cuLaunchKernel"], readings["cuda.cuGraphLaunch"]
    assert launch.on_ns == CYCLE_NS // 20 * windows
    assert graph.on_ns == CYCLE_NS
    seen = probes.seen(JOB)
    assert seen["cuda.cuGraphLaunch"] == 1.0
    assert seen["cuda.cuLaunchKernel"] == pytest.approx(launch.on_ns / graph.on_ns)


def test_dear_sites_are_off_from_the_start(open_grouped: Open, start: Start, library: Path) -> None:
    dear: dict[Trap, int] = {"push": 10, "nop5": 10, "nop1": 10, "endbr64": 10**9, "other": 10**9}
    probes = open_grouped(CallLimits(budget_ppm=5_000), TrapCosts(dear, dear, "made up"))
    caller = start(library)
    watch(probes, caller)
    said = states(probes)
    assert said["cuda.cuLaunchKernel"].state == "attached"
    assert said["cuda.cuCtxSynchronize"].state == "off"
    assert "off for cost" in said["cuda.cuCtxSynchronize"].reason
    assert said["cuda.cuMemFree"].state == "refused"
    caller.tell("call", "cuCtxSynchronize", 5)
    caller.tell("call", "cuStreamSynchronize", 3)  # behind its endbr64
    assert entered(probes) == {"cuda.cuStreamSynchronize": 3}


def test_a_job_that_is_over_before_the_next_look_was_seen(
    open_grouped: Open, start: Start, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes, caller = open_grouped(), start(library)
    now = [CYCLE_NS]
    monkeypatch.setattr(probes, "_clock_ns", lambda: now[0])
    watch(probes, caller)
    now[0] += 1_000_000
    caller.tell("call", "cuLaunchKernel", 7)
    assert entered(probes) == {"cuda.cuLaunchKernel": 7}
    assert probes.seen(JOB)["cuda.cuLaunchKernel"] == 1.0
    assert {reading.on_ns for reading in probes.site_readings(JOB)} >= {1_000_000}


def test_readings_for_the_governor_only_grow(
    open_grouped: Open, start: Start, library: Path
) -> None:
    probes, caller = open_grouped(), start(library)
    watch(probes, caller)
    caller.tell("call", "cuLaunchKernel", 19)
    time.sleep(0.02)
    watch(probes, caller)
    readings = {reading.id: reading for reading in probes.site_readings(JOB)}
    launch = readings["cuda.cuLaunchKernel"]
    assert (launch.hits, launch.hit_ns) == (19, 791)
    assert launch.on_ns >= 20_000_000
    assert readings["cuda.cuGraphLaunch"].hits == 0
    caller.end()
    watch(probes)
    assert probes.read(JOB)["cuda.cuLaunchKernel"].entered == 19


def test_processes_beyond_the_limit_are_counted(
    open_grouped: Open, start: Start, library: Path
) -> None:
    probes = open_grouped(CallLimits(processes=1, jobs=1, budget_ppm=DEARLY))
    callers = [start(library), start(library)]
    watch(probes, *callers)
    assert probes.dropped()["calls.process"] == 1
    for caller in callers:
        caller.tell("call", "cuLaunchKernel", 29)
    assert entered(probes) == {"cuda.cuLaunchKernel": 29}
    probes.want({JOB: [callers[0].pid], 8: [callers[1].pid]})
    probes.look()
    assert probes.dropped()["calls.job"] == 1


def test_a_job_that_writes_ever_new_libraries_is_not_read_for_ever(
    open_grouped: Open, start: Start, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_probes, "READS_MAX", 2)
    probes, caller = open_grouped(), start(library)
    for _ in range(4):
        watch(probes, caller)
        with library.open("ab") as file:
            file.write(b"more")
    watch(probes, caller)
    state = states(probes)["cuda.cuLaunchKernel"]
    assert (state.state, "more than 2 such" in state.reason) == ("absent", True)


def test_a_process_that_is_gone_is_no_trouble(
    open_grouped: Open, start: Start, library: Path
) -> None:
    probes, caller = open_grouped(), start(library)
    caller.end()
    watch(probes, caller)
    assert probes.states() == []
    probes.want({JOB: [2**22 + 1]})
    probes.look()
    assert probes.states() == []


def test_without_a_library_the_state_says_so(open_grouped: Open, start: Start) -> None:
    probes, caller = open_grouped(), start()
    watch(probes, caller)
    state = states(probes)["cuda.cuLaunchKernel"]
    assert (state.state, state.processes) == ("absent", 0)
    assert "mapped" in state.reason


def test_a_refusal_of_the_kernel_is_a_state_and_is_tried_again(
    open_grouped: Open, start: Start, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes, caller = open_grouped(), start(library)
    kernel = probes._kernel
    assert kernel is not None

    class Refusing:
        tries = 0

        def attach(self, *_: object) -> int:
            self.tries += 1
            return -1

        def __getattr__(self, name: str) -> object:
            return getattr(kernel, name)

    refusing = Refusing()
    monkeypatch.setattr(probes, "_kernel", refusing)
    watch(probes, caller)
    watch(probes, caller)
    state = states(probes)["cuda.cuLaunchKernel"]
    assert (state.state, state.processes, refusing.tries) == ("refused", 0, 1)
    assert "CAP_BPF" in state.reason
    monkeypatch.setattr(probes, "_kernel", kernel)
    now = time.monotonic_ns() + RETRY_NS
    monkeypatch.setattr(probes, "_clock_ns", lambda: now)
    watch(probes, caller)
    assert states(probes)["cuda.cuLaunchKernel"].state == "attached"


@pytest.mark.needs_bpf
def test_nothing_is_looked_at_soon_while_no_job_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    require_root()
    probes = CallProbes(ELSEWHERE)
    probes.load()
    now = time.monotonic_ns()
    monkeypatch.setattr(probes, "_clock_ns", lambda: now)
    assert probes.look() == now + LOOK_MAX_NS
    probes.want({JOB: []})
    assert probes.look() <= now + LOOK_NS
    probes.close()


def test_without_the_programs_everything_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    probes = CallProbes(ELSEWHERE)
    assert probes.probe.state == "unknown"
    probes.want({JOB: [os.getpid()]})
    assert probes.look() > 0
    assert (probes.read(JOB), probes.states(), probes.site_readings(JOB)) == ({}, [], ())
    assert set(probes.dropped().values()) == {0}
    probes.close()
