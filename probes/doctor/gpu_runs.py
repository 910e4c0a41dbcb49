# SPDX-License-Identifier: Apache-2.0
"""Runs of traced CUDA programs on the GPU of this machine, and their results.

`make gpu-check` runs `python -m stoker.probes.doctor.gpu_runs`: exit 0 when every check passed, 1
when one failed, 2 without a GPU or its driver. No card is changed: NVML is only read. A run takes
three to five minutes. On a simulated driver every line has SIM.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from stoker.native import paths
from stoker.native.errors import StokerError, Unavailable
from stoker.probes.doctor import gpu_check
from stoker.probes.doctor.gpu_check import BenchMode, CurveRun, GpuEvent, GpuLine, KnownRun
from stoker.probes.kernels.clock_table import clock_table
from stoker.probes.kernels.job_trace import JobTrace, Mode, TraceSummary
from stoker.probes.kernels.tracer_environment import LIBCUPTI, LIBRARIES, find_cupti, offer

RUN_LIMIT_S = 120.0
DRAIN_EVERY_S = 0.02
SWITCHES = 50
LEASE_NS = 1_500_000_000
CALIBRATIONS = 3
KERNEL = 16
"""SK_KIND_KERNEL of native/records/segment.h."""
_EVENT = struct.Struct("<QQQQIIIIHBBHBBIB3x")


class NoGpu(StokerError):
    """Raised if there is no GPU to check."""

    title, code, exit_code = "no GPU", "no_gpu", 2


class Bench:
    """The bench program, run with and without the tracer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = str(paths.program("stoker-bench-cuda"))
        cupti = find_cupti()
        self.cupti = str(cupti or "")
        self._tracers = {
            "cupti": str(paths.library(LIBRARIES["cupti"])),
            LIBCUPTI: self.cupti,
        }

    def plain(self, *arguments: object) -> Any:
        """Return the program's result without a tracer."""
        return self.answer(self._start(arguments, {}))

    @contextlib.contextmanager
    def traced(
        self, mode: BenchMode, *arguments: object
    ) -> Iterator[tuple[subprocess.Popen[str], JobTrace]]:
        """Start the program under the tracer; yield it and its trace, which the caller drains."""
        segments, store = (Path(tempfile.mkdtemp(dir=self._folder)) for _ in range(2))
        made = offer(self._tracers, segments, mode, vendors=("nvidia",))
        fold: Mode = "full" if mode == "full" else "governed"
        with JobTrace.open(segments, store, fold) as trace:
            process = self._start(arguments, made.variables)
            try:
                yield process, trace
            finally:
                process.kill()
                process.wait()

    def trace(
        self, mode: BenchMode, *arguments: object
    ) -> tuple[Any, TraceSummary, list[GpuEvent]]:
        """Run the program to its end; return its result and its trace."""
        with self.traced(mode, *arguments) as (process, trace):
            until = time.monotonic() + RUN_LIMIT_S
            while process.poll() is None and time.monotonic() < until:
                time.sleep(DRAIN_EVERY_S)
                trace.drain()
            said = self.answer(process)
            return said, trace.finish(), events_of(trace)

    def _start(
        self, arguments: Sequence[object], variables: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        # The kernels' times are of interest, not how long the driver takes to load them.
        own = {"CUDA_MODULE_LOADING": "EAGER", "CUDA_CACHE_PATH": str(self._folder / "cache")}
        return subprocess.Popen(
            [self._program, *map(str, arguments)],
            env={**os.environ, **own, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def answer(self, process: subprocess.Popen[str]) -> Any:
        """Parse a program's output at its end; NoGpu if the program found none."""
        try:
            out, err = process.communicate(timeout=RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Unavailable(f"{self._program} took longer than {RUN_LIMIT_S:g} s") from None
        if process.returncode == NoGpu.exit_code:
            raise NoGpu(err.strip().rpartition(": ")[2])
        if process.returncode:
            raise Unavailable(f"exit {process.returncode}: {err.strip()[-300:]}")
        return json.loads(out.splitlines()[-1])


def events_of(trace: JobTrace) -> list[GpuEvent]:
    """Return every record that is still kept, in the order of folding."""
    names, events, first = trace.names(), [], 0
    while True:
        first, folded, data = trace.events(first, 4096)
        for row in _EVENT.iter_unpack(data):
            name = names[row[8]] if row[9] == KERNEL else ""
            events.append(GpuEvent(name, row[9], row[1], row[2], row[5], row[7]))
        first += len(data) // _EVENT.size
        if not data or first >= folded:
            return events


def check_known(bench: Bench) -> Iterator[GpuLine]:
    """Run the program of known work under full tracing."""
    said, summary, events = bench.trace("full", "known")
    yield from gpu_check.known_lines(msgspec.convert(said, KnownRun), summary, events)


def check_switching(bench: Bench, switches: int) -> Iterator[GpuLine]:
    """Switch the tracing of a running program on and off many times."""
    late = 0.0
    with bench.traced("dormant", "until", 20_000) as (process, trace):
        assert process.stdin and process.stdout
        process.stdout.readline()
        for number in range(switches):
            wanted: BenchMode = "dormant" if number % 2 else "full"
            trace.control(wanted, 10_000, LEASE_NS)
            late = max(late, _settled(trace, wanted))
        process.stdin.close()
        process.stdin = None
        said = bench.answer(process)
        summary = trace.finish()
    seen = sum(row.count for row in summary.kernels)
    yield gpu_check.same("switched on and off", f"{switches} times", f"{switches} times")
    yield gpu_check.below("slowest switch", late, 2.0, "s")
    yield GpuLine("launches seen while on", f"{seen} of {said['launches']}")
    timed = summary.records.folded if summary.records else 0
    yield gpu_check.same("all that was seen was timed", timed >= seen > 0, True)


def _settled(trace: JobTrace, wanted: str) -> float:
    """Return the seconds until every tracer follows the request."""
    begun = time.monotonic()
    while time.monotonic() - begun < 10:
        trace.drain()
        answers = trace.answer()
        if answers and all(each.mode == wanted and each.settled for each in answers):
            break
        time.sleep(0.005)
    return time.monotonic() - begun


def kernel_ns_for(bench: Bench, rate: int) -> int:
    """Return the kernel length at which the untraced program makes `rate` launches a second."""
    period = 1e9 / rate
    length = period * 0.8
    for _ in range(CALIBRATIONS):
        said = bench.plain("curve", max(rate // 4, 100), int(length))
        length += period - said["elapsed_ns"] / said["launches"]
        length = max(length, 200.0)
    return int(length)


def measure(bench: Bench, rate: int, seconds: float, rounds: int) -> Iterator[CurveRun]:
    """Measure every mode at one rate, forwards and backwards, so that drift affects all alike."""
    length = kernel_ns_for(bench, rate)
    launches = max(int(rate * seconds), 100)
    for mode in (gpu_check.MODES + gpu_check.MODES[::-1]) * rounds:
        if mode == "off":
            said = bench.plain("curve", launches, length)
            yield CurveRun(rate, mode, launches, said["elapsed_ns"], said["cpu_ns"])
            continue
        said, summary, _ = bench.trace(mode, "curve", launches, length)
        yield CurveRun(
            rate,
            mode,
            launches,
            said["elapsed_ns"],
            said["cpu_ns"],
            sum(row.count for row in summary.kernels),
            sum(row.total_ns for row in summary.kernels),
            summary.records.dropped if summary.records else 0,
        )


def clock_lines() -> Iterator[GpuLine]:
    """Return lines about the clocks of the system; the device's clock is in the trace."""
    for row in clock_table():
        offset = "-" if row.offset_ns is None else f"{row.offset_ns:+d} ns"
        yield GpuLine(f"clock {row.clock}", f"{offset}, +-{row.error_ns} ns, {row.drift_ppb} ppb")


def card_lines() -> Iterator[GpuLine]:
    """Return lines about the cards from NVML, which is only read."""
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception as error:  # the binding raises classes of its own, made at run time
        yield GpuLine("NVML", f"not to be had: {error}")
        return
    for index in range(nvml.nvmlDeviceGetCount()):
        card = nvml.nvmlDeviceGetHandleByIndex(index)
        for name, ask in _ASKED.items():
            try:
                yield GpuLine(f"card {index} {name}", ask(nvml, card))
            except nvml.NVMLError as error:
                yield GpuLine(f"card {index} {name}", f"not to be had: {error}")


_ASKED: Mapping[str, Callable[[Any, Any], str]] = {
    "name": lambda nvml, card: str(nvml.nvmlDeviceGetName(card)),
    "power": lambda nvml, card: f"{nvml.nvmlDeviceGetPowerUsage(card) / 1000:.0f} W",
    "temperature": lambda nvml, card: f"{nvml.nvmlDeviceGetTemperature(card, 0)} C",
    "SM clock": lambda nvml, card: f"{nvml.nvmlDeviceGetClockInfo(card, 1)} MHz",
}


def driver_line() -> GpuLine:
    """Return a line with the driver's version; NoGpu without a driver or device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NoGpu(f"the NVIDIA driver is not on this machine ({error})") from None
    version, count = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        raise NoGpu("the NVIDIA driver finds no device")
    driver.cuDriverGetVersion(ctypes.byref(version))
    simulated = " (SIM)" if hasattr(driver, "stoker_sim_driver") else ""
    return GpuLine(f"CUDA driver{simulated}", f"{version.value}, {count.value} devices")


def run(folder: Path, rates: Sequence[int], seconds: float, rounds: int, switches: int) -> Any:
    """Run all checks; return the result of `gpu_check.result`."""
    began = time.monotonic()
    lines = [driver_line(), *card_lines(), *clock_lines()]
    bench = Bench(folder)
    lines.append(GpuLine("libcupti", bench.cupti or "as the loader finds it"))
    lines += check_known(bench)
    lines += check_switching(bench, switches)
    runs = [run for rate in rates for run in measure(bench, rate, seconds, rounds)]
    points = gpu_check.curve(runs)
    lines += gpu_check.curve_lines(points)
    lines.append(GpuLine("took", f"{time.monotonic() - began:.0f} s"))
    return gpu_check.result(lines, points, runs=[msgspec.to_builtins(each) for each in runs])


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="write everything there")
    parser.add_argument("--rates", type=int, nargs="+", default=list(gpu_check.RATES))
    parser.add_argument("--seconds", type=float, default=2.0, help="of one run")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--switches", type=int, default=SWITCHES)
    asked = parser.parse_args()
    shm = Path("/dev/shm")
    try:
        with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as folder:
            found = run(Path(folder), asked.rates, asked.seconds, asked.rounds, asked.switches)
    except StokerError as error:
        print(f"gpu-check: {error.message}", file=sys.stderr)
        return 2 if isinstance(error, NoGpu) else 1
    except paths.NotBuilt as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return 1
    print(gpu_check.table([msgspec.convert(line, GpuLine) for line in found["lines"]]))
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if found["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
