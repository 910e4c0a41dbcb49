# SPDX-License-Identifier: Apache-2.0
"""The error of a tracer's timestamps against CLOCK_MONOTONIC, measured without its clocks.

On an OpenCL device that works in the host's memory (PoCL) a kernel writes to memory that a thread
of the host spins on; the thread reads CLOCK_MONOTONIC when it sees the write
(probes/clockcheck/observe.c). The remaining difference from the tracer's stamp is not only that of
the clocks: see RESIDUAL. The functions for figures are pure.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from stoker.native import errors, paths
from stoker.probes.kernels.job_trace import ClockAlignment, JobTrace
from stoker.probes.kernels.tracer_environment import layer_environment

PROGRAM = "stoker-clock-observe"
LAUNCHES = 500
LOOPS = 2000
"""The iterations of the kernel between its two writes, about a microsecond."""
TIMEOUT_S = 60.0

RESIDUAL = (
    "driver: it stamps the start before, and the end after, it runs the kernel's own code",
    "cache: the line with the write has to come to the observer's core, about 0.1 us",
    "clock reading: the observer reads CLOCK_MONOTONIC after it saw the write, about 0.03 us",
    "scheduling: a thread of the driver that is put aside between its stamp and the kernel's code",
)
"""The parts of a gap that are not a misalignment of the clocks."""

Observed = tuple[int, int, int, int, int, int]
"""(start, end) as the tracer has them, (start, end) as the host saw them, CLOCK_MONOTONIC ns, and
how long before each of these the observer had last looked."""

LATE_NS = 1_000
"""An observer that did not look for this long was not running, so its observation is left out.

Only its own clock decides that, so the tracer's stamps are not selected.
"""


class Gaps(msgspec.Struct, frozen=True):
    """Distances in ns: the smallest, the median, the 99th percentile and the largest."""

    least: int
    p50: int
    p99: int
    most: int


class ClockCheck(msgspec.Struct, frozen=True):
    """`start`: seen minus recorded start; `end`: recorded minus seen end.

    Both are at least 0 if the clocks agree and no stamp is late; `error_p99_ns` is the 99th
    percentile of |start|.

    `too_late_ns`: the stamps are later than the host's clock by no more than this, whatever the
    residual contains: nothing is seen before it begins. `agrees`: no start was seen earlier than
    the tracer's stated alignment error allows, and the median gaps of start and end are below
    20 us.
    """

    launches: int
    disturbed: int
    """The number of other launches, which the observer did not see in time."""
    start: Gaps
    end: Gaps
    error_p99_ns: int
    too_late_ns: int
    agrees: bool
    claimed: ClockAlignment | None
    residual: tuple[str, ...] = RESIDUAL


FAR_NS = 20_000
"""A median gap beyond this is a misalignment and not explained by RESIDUAL."""


def figures(rows: Sequence[Observed], claimed: ClockAlignment | None = None) -> ClockCheck:
    """Return the statistics of the observations; Unavailable if none was in time."""
    timely = [row for row in rows if max(row[4:]) <= LATE_NS]
    if not timely:
        raise errors.Unavailable(f"none of {len(rows)} launches was observed in time")
    start = gaps([seen - recorded for recorded, _, seen, *_ in timely])
    end = gaps([recorded - seen for _, recorded, _, seen, *_ in timely])
    distances = sorted(abs(seen - recorded) for recorded, _, seen, *_ in timely)
    error = claimed.error_ns if claimed else 0
    return ClockCheck(
        launches=len(timely),
        disturbed=len(rows) - len(timely),
        start=start,
        end=end,
        error_p99_ns=distances[_rank(len(distances), 0.99)],
        too_late_ns=start.least,
        agrees=start.least >= -error and abs(start.p50) < FAR_NS and abs(end.p50) < FAR_NS,
        claimed=claimed,
    )


def gaps(values: Sequence[int]) -> Gaps:
    """Return the nearest-rank figures of some distances."""
    ranked = sorted(values)
    count = len(ranked)
    return Gaps(ranked[0], ranked[_rank(count, 0.5)], ranked[_rank(count, 0.99)], ranked[-1])


def _rank(count: int, part: float) -> int:
    return min(count - 1, int(count * part))


def clock_check(launches: int = LAUNCHES) -> ClockCheck:
    """Measure on this machine; Unavailable without such a device or a tracer."""
    with tempfile.TemporaryDirectory(prefix="stoker-clock-") as name:
        segments, store = Path(name, "segments"), Path(name, "store")
        for folder in (segments, store):
            folder.mkdir()
        with JobTrace.open(segments, store, "full") as trace:
            rows = _observe(segments, launches)
            claimed = trace.finish().clock
    return figures(rows, claimed)


def _observe(segments: Path, launches: int) -> list[Observed]:
    try:
        library, program = paths.library("libstoker-opencl.so"), paths.program(PROGRAM)
    except paths.NotBuilt as missing:
        raise errors.Unavailable(str(missing)) from missing
    # One worker, so that the observer has a processor of its own where there are two.
    env = {**os.environ, "POCL_MAX_PTHREAD_COUNT": "1"}
    try:
        done = subprocess.run(
            [program, str(launches), str(LOOPS)],
            env=env | layer_environment(library, segments, "full"),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise errors.Unavailable(f"the clock check took more than {TIMEOUT_S:g} s") from late
    if done.returncode:
        raise errors.Unavailable(f"the clock check: {done.stderr.strip()[-200:]}")
    return [parse(line) for line in done.stdout.splitlines()]


def parse(line: str) -> Observed:
    """Parse a line of the program."""
    start, end, seen_start, seen_end, late_start, late_end = map(int, line.split())
    return start, end, seen_start, seen_end, late_start, late_end
