# SPDX-License-Identifier: Apache-2.0
"""The measuring half of `stoker bench probes`: programs that launch in turns on one core.

At each rate one program per mode is alive at the same time; the launching one has the last core to
itself, the others and the drain of the traces have the first. `bench_probes` evaluates the slices.
"""

from __future__ import annotations

import contextlib
import json as jsonlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, Self

import msgspec

from stoker.native import errors, paths
from stoker.probes.bench.bench_probes import (
    MODES,
    NOISE_MAX_PCT,
    RATES,
    SLICE_NS,
    STEADY,
    BenchMode,
    Cell,
    Driver,
    Estimate,
    ProbeRow,
    Quad,
    RecordTally,
    Slice,
    error_pct,
    report,
    rows,
)
from stoker.probes.kernels.clock_check import clock_check
from stoker.probes.kernels.job_trace import JobTrace, Mode, TraceSummary
from stoker.probes.kernels.trace_summary import KernelSummary
from stoker.probes.kernels.tracer_environment import layer_environment

Device = Driver | Literal["basic", "pthread"]
"""The driver that a program launches on; the last two are PoCL devices by PoCL's names."""

DRAIN_EVERY_S = 0.02
ESTIMATE_S = 8.0
"""The duration of launches for an estimate, long enough for some tens of windows."""
TARGET_FITS = 1.1
"""A launch has the length that was asked for if it takes up to this factor more or less."""
CORRECTIONS_MIN, CORRECTIONS_MAX = 4, 32
"""Short kernels have a different slope than long ones, so a length is corrected in turns."""
QUADS_MAX_FACTOR = 4
"""The most repetitions of the quads of one rate, made to bring the noise down."""


class LaunchLoop:
    """One program that launches on request; its trace is drained meanwhile."""

    def __init__(
        self, driver: Device, mode: BenchMode, folder: Path, *, alone: bool = False
    ) -> None:
        """`alone`: the program starts no second thread, which GPU runtimes always do."""
        env = driver_environment(driver)
        self.mode, self._trace = mode, None
        if mode != "off":
            segments, store = (Path(tempfile.mkdtemp(dir=folder)) for _ in range(2))
            fold: Mode = "full" if mode == "full" else "governed"
            self._trace = JobTrace.open(segments, store, fold)
            env |= layer_environment(paths.library("libstoker-opencl.so"), segments, fold)
            env["STOKER_TRACE_MODE"] = mode
        order = "serve-alone" if alone else "serve"
        argv = [str(paths.program("stoker-bench-opencl")), order]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            argv, env=env, stdin=pipe, stdout=pipe, text=True, start_new_session=True
        )
        _favour(self._process.pid)
        self._stop = threading.Event()
        self._drains = threading.Thread(target=self._drain, daemon=True)
        if self._trace is not None:
            self._drains.start()

    def launch_slices(
        self, iterations: int, launches: int, warm: int = 0, slices: int = 1, *, vary: bool = False
    ) -> list[Slice]:
        """Run slices in a row on the measuring core."""
        self._move(_cores()[1])
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{iterations} {launches} {int(vary)} {warm} {slices}\n")
            process.stdin.flush()
            answers = [process.stdout.readline() for _ in range(slices)]
        except BrokenPipeError:
            answers = [""]
        if not all(answers):
            raise errors.NotSupported(f"the bench program ended: exit status {process.wait()}")
        self._move(_cores()[0])
        return [msgspec.json.decode(answer, type=Slice) for answer in answers]

    def end(self) -> TraceSummary | None:
        """End the program; return its completely folded trace."""
        self._process.communicate("")
        self._stop.set()
        if self._trace is None:
            return None
        self._drains.join()
        with self._trace:
            return self._trace.finish()

    def kill(self) -> None:
        """Kill the program and stop its drain."""
        self._process.kill()
        self._process.wait()
        self._stop.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _drain(self) -> None:
        assert self._trace is not None
        while not self._stop.wait(DRAIN_EVERY_S):
            while self._trace.drain().fill > 0.05:
                pass

    def _move(self, core: int) -> None:
        for thread in Path(f"/proc/{self._process.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})


def _favour(pid: int) -> None:
    """Raise the priority of a program and its session, if permitted."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, -20)
        Path(f"/proc/{pid}/autogroup").write_text("-20")


def _cores() -> tuple[int, int]:
    """Return the core of the other programs and the core to measure on."""
    allowed = _ALLOWED
    return min(allowed), max(allowed)


_ALLOWED = os.sched_getaffinity(0)


@contextmanager
def out_of_the_way() -> Iterator[None]:
    """Move this process off the measuring core, if there is more than one core."""
    os.sched_setaffinity(0, {_cores()[0]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, _ALLOWED)


def driver_environment(driver: Device) -> dict[str, str]:
    """Return an environment in which a program finds this driver alone.

    PoCL's `basic` one runs kernels in the calling thread: one worker, and nothing between the
    launch and its end. The one worker of `pthread` shares a core with the thread that launches.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OPENCL_", "STOKER_", "OCL_"))}
    if driver == "SIM":
        return env | {"OCL_ICD_VENDORS": str(paths.library("libstoker-simcl.so"))}
    name = "basic" if driver == "pocl" else driver
    return env | {"POCL_DEVICES": name, "POCL_MAX_PTHREAD_COUNT": "1", "POCL_AFFINITY": "0"}


def calibrate(loop: LaunchLoop, target_ns: float) -> tuple[int, float] | None:
    """Return the iterations with which an untraced launch takes `target_ns`, and its real time.

    None if even the shortest launch takes longer. A core that another program slowed down for a
    while tells a wrong slope, so the length is corrected until it fits.
    """
    shortest = shortest_ns(loop, 1, 2000)
    if shortest > TARGET_FITS * target_ns:
        return None
    long = 1 << 12
    slope = max((shortest_ns(loop, long, 500) - shortest) / long, 1e-3)
    launches = max(10, int(2e6 / target_ns))
    iterations, took = 1, shortest
    for turn in range(CORRECTIONS_MAX):
        iterations = max(1, iterations + round((target_ns - took) / slope))
        took = shortest_ns(loop, iterations, launches)
        fits = target_ns / TARGET_FITS < took < TARGET_FITS * target_ns
        if turn >= CORRECTIONS_MIN and fits:
            break
    return iterations, took


def shortest_ns(loop: LaunchLoop, iterations: int, launches: int) -> float:
    """Return the wall time of one launch in the best of a few slices."""
    return min(each.wall_ns for each in loop.launch_slices(iterations, launches, 0, 7)) / launches


def quad(off: LaunchLoop, on: LaunchLoop, iterations: int, launches: int) -> Quad:
    """Run four slices in ABBA order."""
    warm, slices = STEADY.get(on.mode, (0, 1))
    a1, b1, b2, a2 = (
        each.launch_slices(iterations, launches, warm, slices) for each in (off, on, on, off)
    )
    return Quad((*a1, *a2), (*b1, *b2))


def turns(mode: BenchMode, quads: int) -> int:
    """Return the number of quads of a mode; fewer if each has many slices."""
    slices = STEADY.get(mode, (0, 1))[1]
    return max(2, 2 * quads // slices) if slices > 1 else quads


def measure(
    rate: int, driver: Driver, folder: Path, quads: int, modes: Sequence[BenchMode] = MODES
) -> Cell | None:
    """Measure all modes at one rate; None if the driver cannot launch that often."""
    with ExitStack() as stack:
        stack.enter_context(out_of_the_way())
        off = stack.enter_context(LaunchLoop(driver, "off", folder))
        if (fit := calibrate(off, 1e9 / rate)) is None:
            return None
        iterations, took_ns = fit
        launches = max(10, int(SLICE_NS / took_ns))
        loops = {mode: stack.enter_context(LaunchLoop(driver, mode, folder)) for mode in modes}
        cell = Cell(rate, driver, launches, {mode: [] for mode in modes}, {})
        for _ in range(QUADS_MAX_FACTOR):
            for index in range(quads):
                for mode, loop in loops.items():
                    if index < turns(mode, quads):
                        cell.quads[mode].append(quad(off, loop, iterations, launches))
            if cell.noise_pct < NOISE_MAX_PCT:
                break
        summaries = {mode: loop.end() for mode, loop in loops.items()}
        cell.records |= {mode: counted(each) for mode, each in summaries.items() if each}
        if driver == "pocl":
            cell.estimate = against(summaries.get("governed"), summaries.get("full"))
        return cell


def counted(summary: TraceSummary) -> RecordTally:
    """Return the records and launches of a finished trace."""
    launches = summary.cost.launches if summary.cost is not None else 0
    records = summary.records
    if records is None:
        return RecordTally(launches=launches)
    return RecordTally(records.made, records.folded, records.dropped, launches)


def _row_of(summary: TraceSummary | None) -> KernelSummary | None:
    """Return the row of the one kernel; None if none was counted."""
    row = summary.kernels[0] if summary is not None and summary.kernels else None
    return row if row is not None and row.count else None


def against(guess: TraceSummary | None, truth: TraceSummary | None) -> Estimate | None:
    """Compare the device time of a launch by two traces of two programs, whose launches are equal.

    Nothing is compared where the first trace timed every launch: it has no estimate then, and what
    is left is the difference of two programs. None if one of them has no launch.
    """
    guessed, known = _row_of(guess), _row_of(truth)
    if guessed is None or known is None:
        return None
    if not guessed.estimate:
        return Estimate(None)
    mean, true = (row.total_ns / (row.count + row.unseen) for row in (guessed, known))
    return Estimate(error_pct(mean, true), stated_pct(guessed))


def stated_pct(row: KernelSummary) -> float:
    """Return the stated half-width (95 %) of a row in percent of its time."""
    return round(100 * row.error_ns / row.total_ns, 3) if row.total_ns else 0.0


def estimate(rate: int, folder: Path, seconds: float) -> Estimate | None:
    """Compare the governed estimate of device time with the truth.

    Lengths vary sixteenfold, and the simulated driver knows the truth. None if nothing was timed.
    """
    length = max(1, int(1e9 / rate) - 100)
    launches = max(10, int(SLICE_NS * rate / 1e9))
    with out_of_the_way(), LaunchLoop("SIM", "governed", folder) as loop:
        slices = max(1, int(seconds * 1e9 / SLICE_NS))
        truth = sum(
            each.iterations for each in loop.launch_slices(length, launches, 0, slices, vary=True)
        )
        summary = loop.end()
    row = _row_of(summary)
    if row is None or row.p50_ns is None:
        return None
    return Estimate(error_pct(row.total_ns, truth), stated_pct(row))


def dormant_ns(folder: Path, rounds: int = 40) -> float:
    """Return the ns that a dormant tracer adds to the shortest launch, best against best."""
    with ExitStack() as stack:
        stack.enter_context(out_of_the_way())
        off, dormant = (
            stack.enter_context(LaunchLoop("SIM", mode, folder)) for mode in ("off", "dormant")
        )
        took: dict[str, float] = {}
        for _ in range(rounds):
            for loop in (off, dormant, dormant, off):
                ns = loop.launch_slices(0, 20_000)[0].wall_ns / 20_000
                took[loop.mode] = min(ns, took.get(loop.mode, ns))
    return round(took["dormant"] - took["off"], 2)


def program_rates(seconds: float) -> tuple[dict[str, float], dict[str, str]]:
    """Return the rates of ring, drain and fold, and the clock's error, by separate programs."""
    found: dict[str, float] = {}
    absent: dict[str, str] = {}
    try:
        argv = [str(paths.program("stoker-bench-fold")), str(seconds)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(argv, stdout=pipe, stderr=pipe, start_new_session=True)
        _favour(process.pid)
        out, err = process.communicate()
        found |= jsonlib.loads(out) if not process.returncode else {}
        if "ring_paced_dropped" in found:
            found["ring_lost_at_2500k_per_s"] = found["ring_paced_dropped"]
        if process.returncode:
            absent["fold_events_per_s"] = err.decode(errors="replace").strip()
    except paths.NotBuilt as error:
        absent["fold_events_per_s"] = str(error)
    try:
        found["clock_error_p99_ns"] = clock_check().error_p99_ns
    except errors.StokerError as error:
        absent["clock_error_p99_ns"] = error.message
    return found, absent


def plan(drivers: Sequence[Driver], rates: Sequence[int]) -> list[tuple[int, Driver]]:
    """Return the cells to measure, rate by rate for all drivers."""
    return [(rate, driver) for rate in rates for driver in drivers]


def run(
    *,
    quads: int = 40,
    rates: Sequence[int] = RATES,
    drivers: Sequence[Driver] = ("pocl", "SIM"),
    modes: Sequence[BenchMode] = MODES,
    told: Callable[[ProbeRow], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure everything; `told` is called with each row. Raises NotSupported without an
    OpenCL loader, NotBuilt without the programs."""
    found: list[ProbeRow] = []
    absent: dict[str, str] = {}
    with tempfile.TemporaryDirectory(dir=fast_folder(), prefix="stoker-bench-") as name:
        folder = Path(name)
        for rate, driver in plan(drivers, rates):
            cell = measure(rate, driver, folder, quads, modes)
            if cell is None:
                absent[f"rows of {driver} at {rate}/s"] = "its shortest launch takes longer"
                continue
            if driver == "SIM" and "governed" in modes:
                cell.estimate = estimate(rate, folder, ESTIMATE_S)
            for row in rows(cell):
                found.append(row)
                told(row)
        dormant = dormant_ns(folder, 2 * quads) if "SIM" in drivers else None
    measured, missing = program_rates(1.0)
    return report(found, dormant, measured, absent | missing)


def fast_folder() -> str | None:
    """Return a folder for trace segments, in memory if possible."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
