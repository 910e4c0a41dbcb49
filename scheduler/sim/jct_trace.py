# SPDX-License-Identifier: Apache-2.0
"""Published job traces as one kind of row: submit time, user, number of devices and run time.

Invariant: the rows are sorted by submit time, which begins at 0, and no row is guessed; an
unreadable row is refused with its file and line.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from stoker.native.errors import BadRequest

SECOND: Final = 1_000_000_000
JOBS_MAX: Final = 1_000_000
GPUS_MAX: Final = 1024
"""The most devices of one job: 64 tasks of 16 devices."""
RUN_MAX_S: Final = 10 * 365 * 86_400
SPAN_MAX_S: Final = 200 * 365 * 86_400
ROW_MAX: Final = 4096
"""The most characters of one row."""

POLLUX_SECONDS: Final[dict[tuple[str, int, int], int]] = {
    ("bert", 6, 384): 3056,
    ("bert", 8, 384): 2480,
    ("bert", 12, 384): 1589,
    ("bert", 16, 384): 1335,
    ("cifar10", 6, 2048): 854,
    ("cifar10", 8, 2048): 826,
    ("cifar10", 12, 4096): 573,
    ("cifar10", 16, 4096): 449,
    ("deepspeech2", 6, 320): 4153,
    ("deepspeech2", 8, 320): 3501,
    ("deepspeech2", 12, 640): 2573,
    ("imagenet", 16, 3200): 44_072,
    ("imagenet", 24, 3200): 31_396,
    ("imagenet", 32, 6400): 26_207,
    ("imagenet", 48, 6400): 18_880,
    ("ncf", 1, 32_768): 33,
    ("yolov3", 4, 64): 12_870,
}
"""(application, replicas, batch size) -> seconds to the last epoch.

The workloads have no run times. These are computed from the profiles published with them:
iterations to the application's last epoch (validation-*.csv) times the step time of replicas packed
four to a node (placements.csv, beyond 16 scalability.csv), accumulation steps included:
petuum/adaptdl, branch osdi21-artifact, simulator/traces. All configurations of the generator,
workload.py, are here.
"""


class TraceJob(NamedTuple):
    """One job of a trace."""

    name: str
    tenant: str
    submit_ns: int
    """The submit time after the first job of the trace."""
    gpus: int
    run_ns: int
    """The run time on any device; with `by_model`, on the slowest of those."""
    by_model: tuple[tuple[str, int], ...] = ()
    """(device model, run time on it in ns) if the trace distinguishes models; other models are
    excluded.
    """


Throughputs = Mapping[str, Mapping[tuple[str, int], float]]
"""Device model -> (job type, scale) -> steps per second."""


def read_jobs(
    paths: Iterable[Path], throughputs: Throughputs | None = None, limit: int | None = None
) -> list[TraceJob]:
    """Return the jobs of all files, the first `limit` of them by submit time.

    The first line of each file identifies its format. Raises BadRequest with file and line.
    """
    jobs: list[TraceJob] = []
    for path in paths:
        jobs += _read_one(path, throughputs)
        if len(jobs) > JOBS_MAX:
            raise BadRequest(f"{path}: more than {JOBS_MAX} jobs")
    if not jobs:
        raise BadRequest("the trace has no jobs")
    jobs.sort(key=lambda job: job.submit_ns)
    start = jobs[0].submit_ns
    return [job._replace(submit_ns=job.submit_ns - start) for job in jobs[:limit]]


def read_throughputs(path: Path) -> Throughputs:
    """Read Gavel's simulation_throughputs.json: each job type's rate alone on each device model.

    Models measured with workers on several nodes ("..._unconsolidated") are left out.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return {
            model: {_job_type(key): float(runs["null"]) for key, runs in table.items()}
            for model, table in raw.items()
            if not model.endswith("_unconsolidated")
        }
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadRequest(f"{path}: no table of throughputs") from error


def _job_type(key: str) -> tuple[str, int]:
    """Parse "('ResNet-18 (batch size 16)', 2)" into ("ResNet-18 (batch size 16)", 2)."""
    name, _, scale = key.strip("()").rpartition(", ")
    return name.strip("'\""), int(scale)


def format_of(path: Path) -> str:
    """Return philly, pollux, tiresias or gavel by the file's first line."""
    with _opened(path) as lines:
        first = next(lines, "").strip()
    columns = set(first.split(","))
    for name, (needed, _) in _FORMATS.items():
        if needed <= columns:
            return name
    if first.count("\t") == 6:
        return "gavel"
    raise BadRequest(f"{path}:1: no trace that is known: philly, pollux, tiresias or gavel")


def _read_one(path: Path, throughputs: Throughputs | None) -> Iterator[TraceJob]:
    kind = format_of(path)
    if kind == "gavel":
        if throughputs is None:
            raise BadRequest(
                f"{path}: this trace counts steps", hint="Give its simulation_throughputs.json."
            )
        rows = _gavel_rows(path)
        parse: Callable[[dict[str, str]], TraceJob] = _gavel(path.stem, throughputs)
    else:
        rows, parse = _csv_rows(path), _FORMATS[kind][1]
    for line, row in rows:
        try:
            job = parse(row)
            _check(job)
        except KeyError as error:
            raise BadRequest(f"{path}:{line}: nothing is known of {error.args[0]}") from error
        except (ValueError, TypeError, OverflowError) as error:
            raise BadRequest(f"{path}:{line}: {error}") from error
        yield job


def _check(job: TraceJob) -> None:
    if not 1 <= job.gpus <= GPUS_MAX:
        raise ValueError(f"a job has 1 to {GPUS_MAX} GPUs, not {job.gpus}")
    if abs(job.submit_ns) > SPAN_MAX_S * SECOND:
        raise ValueError("a trace spans up to 200 years")
    for run in (job.run_ns, *(run for _, run in job.by_model)):
        if not 0 < run <= RUN_MAX_S * SECOND:
            raise ValueError(f"a job runs up to ten years, not {run / SECOND:g} s")


class _opened:
    """A context with the lines of a text file; BadRequest if it cannot be read or decoded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Iterator[str]:
        try:
            self.file = self.path.open(encoding="utf-8", newline="")
        except OSError as error:
            raise BadRequest(f"{self.path}: {error.strerror}") from error
        return self._lines()

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def _lines(self) -> Iterator[str]:
        number = 0
        try:
            while line := self.file.readline(ROW_MAX + 1):
                number += 1
                if len(line) > ROW_MAX:
                    raise BadRequest(f"{self.path}:{number}: more than {ROW_MAX} characters")
                yield line
        except UnicodeDecodeError as error:
            raise BadRequest(f"{self.path}:{number + 1}: no UTF-8 text") from error
        except OSError as error:
            raise BadRequest(f"{self.path}: {error.strerror}") from error


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    with _opened(path) as lines:
        reader = csv.reader(lines, strict=True)
        try:
            header = [name.strip() for name in next(reader)]
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise BadRequest(
                        f"{path}:{reader.line_num}: {len(cells)} cells where the header has "
                        f"{len(header)}"
                    )
                yield reader.line_num, dict(zip(header, cells, strict=True))
        except csv.Error as error:
            raise BadRequest(f"{path}:{reader.line_num}: {error}") from error


_GAVEL_COLUMNS = ("type", "command", "steps_arg", "needs_data", "steps", "arrival", "scale")


def _gavel_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    with _opened(path) as lines:
        for number, line in enumerate(lines, 1):
            cells = line.rstrip("\r\n").split("\t")
            if cells == [""]:
                continue
            if len(cells) != len(_GAVEL_COLUMNS):
                raise BadRequest(f"{path}:{number}: {len(cells)} columns, not 7")
            yield number, dict(zip(_GAVEL_COLUMNS, cells, strict=True))


def _seconds(text: str) -> int:
    """Return a number of seconds in ns."""
    return round(float(text) * SECOND)


def _philly(row: dict[str, str]) -> TraceJob:
    since = datetime.fromisoformat(row["timestamp"]) - datetime(1970, 1, 1)
    submit = (since.days * 86_400 + since.seconds) * SECOND
    return TraceJob("", row["cluster"], submit, int(row["num_gpus"]), _seconds(row["duration"]))


def _pollux(row: dict[str, str]) -> TraceJob:
    replicas = int(row["num_replicas"])
    known = (row["application"], replicas, int(row["batch_size"]))
    run = POLLUX_SECONDS[known] * SECOND
    return TraceJob(row["name"], row["application"], _seconds(row["time"]), replicas, run)


def _tiresias(row: dict[str, str]) -> TraceJob:
    return TraceJob(
        row["job_id"], row["model_name"], _seconds(row["submit_time"]), int(row["num_gpu"]),
        _seconds(row["duration"]),
    )  # fmt: skip


def _gavel(tenant: str, throughputs: Throughputs) -> Callable[[dict[str, str]], TraceJob]:
    def parse(row: dict[str, str]) -> TraceJob:
        scale, steps = int(row["scale"]), float(row["steps"])
        runs = tuple(
            (model, round(steps / speed * SECOND))
            for model, table in throughputs.items()
            if (speed := _throughput(table, row["type"], scale)) > 0
        )
        if not runs:
            raise KeyError(row["type"])
        slowest = max(run for _, run in runs)
        return TraceJob(row["type"], tenant, _seconds(row["arrival"]), scale, slowest, runs)

    return parse


def _throughput(table: Mapping[tuple[str, int], float], kind: str, scale: int) -> float:
    """Return the throughput at this scale, else that on one device, which the trace then used."""
    return table.get((kind, scale), table.get((kind, 1), 0.0))


_FORMATS: Final[dict[str, tuple[set[str], Callable[[dict[str, str]], TraceJob]]]] = {
    "philly": ({"timestamp", "duration", "num_gpus", "cluster"}, _philly),
    "pollux": ({"name", "time", "application", "num_replicas", "batch_size"}, _pollux),
    "tiresias": ({"job_id", "num_gpu", "submit_time", "model_name", "duration"}, _tiresias),
}
