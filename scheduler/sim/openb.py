# SPDX-License-Identifier: Apache-2.0
"""Machines and tasks of the Alibaba 2023 GPU trace ("openb"), read from its CSV files.

Pure: lines of text in, tuples out; an invalid row raises BadRequest with its file and line.
Columns: alibaba/clusterdata, cluster-trace-gpu-v2023.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from stoker.native.errors import BadRequest
from stoker.scheduler.wire_names import JOB_MODELS_MAX

NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
TASK_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
"""The columns of the `multigpu` files; the others have models and times too."""
TIME_COLUMNS: Final = ("creation_time", "deletion_time")

MACHINES_MAX: Final = 65_535
TASKS_MAX: Final = 1_000_000
GPUS_PER_MACHINE_MAX: Final = 64
GPUS_PER_TASK_MAX: Final = 16
MIB: Final = 1 << 20
_CPU_MILLI_MAX = 2**32 - 1
_MEMORY_MIB_MAX = 2**40


class Machine(NamedTuple):
    """One node of the trace."""

    name: str
    cpu_milli: int
    memory_bytes: int
    gpus: int
    model: str


class TraceTask(NamedTuple):
    """One task of the trace; `gpu_milli` is of each of its GPUs."""

    cpu_milli: int
    memory_bytes: int
    gpus: int
    gpu_milli: int
    models: tuple[str, ...] = ()
    """The accepted GPU models; empty for any."""
    created_s: int | None = None
    """Seconds from the trace's start; None if the file has no times."""
    deleted_s: int | None = None

    @property
    def demand_milli(self) -> int:
        """The thousandths of a GPU that all of its GPUs need together."""
        return self.gpus * self.gpu_milli


def read_machines(lines: Iterable[str], file: str) -> list[Machine]:
    """Return the nodes by name; BadRequest for a bad row, a repeated name or no GPU at all."""
    found = [_machine(row) for row in _rows(lines, file, NODE_COLUMNS, MACHINES_MAX)]
    names = {machine.name for machine in found}
    if len(names) != len(found):
        raise BadRequest(f"{file}: {len(found)} nodes have only {len(names)} names")
    if not any(machine.gpus for machine in found):
        raise BadRequest(f"{file}: none of {len(found)} nodes has a GPU")
    return sorted(found)


def read_tasks(lines: Iterable[str], file: str) -> list[TraceTask]:
    """Return the tasks in the file's order; BadRequest for a bad row or none at all."""
    return [_task(row) for row in _rows(lines, file, TASK_COLUMNS, TASKS_MAX)]


def check_times(tasks: Iterable[TraceTask], file: str) -> None:
    """Raise BadRequest if a task has no time of arrival or end."""
    if any(task.created_s is None or task.deleted_s is None for task in tasks):
        raise BadRequest(
            f"{file}: a task has no creation_time or no deletion_time",
            hint="Departures need a file that says when tasks leave",
        )


class _Row(NamedTuple):
    """The fields of one line by column, with its file and line number."""

    where: str
    fields: dict[str, str]

    def number(self, column: str, most: int) -> int:
        text = self.fields[column].strip()
        if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most):
            raise BadRequest(f"{self.where}: {column} is {text!r}, not a number from 0 to {most}")
        return int(text)

    def name(self, column: str) -> str:
        text = self.fields[column].strip()
        if not text:
            raise BadRequest(f"{self.where}: {column} is empty")
        return text


def _rows(lines: Iterable[str], file: str, columns: tuple[str, ...], most: int) -> Iterator[_Row]:
    reader = csv.reader(lines)
    header = [name.strip().lstrip("\ufeff") for name in next(reader, [])]
    missing = [name for name in columns if name not in header]
    if missing:
        raise BadRequest(f"{file}:1: there is no column {', '.join(missing)}")
    count = 0
    for fields in reader:
        if not fields:
            continue
        count += 1
        where = f"{file}:{reader.line_num}"
        if len(fields) != len(header):
            raise BadRequest(f"{where}: {len(fields)} fields where the header has {len(header)}")
        if count > most:
            raise BadRequest(f"{where}: more than {most} rows")
        yield _Row(where, dict(zip(header, fields, strict=True)))
    if not count:
        raise BadRequest(f"{file}: no rows after the header")


def _machine(row: _Row) -> Machine:
    gpus = row.number("gpu", GPUS_PER_MACHINE_MAX)
    return Machine(
        row.name("sn"),
        row.number("cpu_milli", _CPU_MILLI_MAX),
        row.number("memory_mib", _MEMORY_MIB_MAX) * MIB,
        gpus,
        row.name("model") if gpus else "",
    )


def _task(row: _Row) -> TraceTask:
    gpus = row.number("num_gpu", GPUS_PER_TASK_MAX)
    milli = row.number("gpu_milli", 1000)
    if gpus and not milli:
        raise BadRequest(f"{row.where}: gpu_milli is 0 and num_gpu {gpus}")
    if gpus > 1 and milli != 1000:
        raise BadRequest(f"{row.where}: a share of {milli}/1000 of {gpus} GPUs: only one is shared")
    created, deleted = (_time(row, column) for column in TIME_COLUMNS)
    if created is not None and deleted is not None and deleted < created:
        raise BadRequest(f"{row.where}: deleted at {deleted}, before it was created at {created}")
    return TraceTask(
        row.number("cpu_milli", _CPU_MILLI_MAX),
        row.number("memory_mib", _MEMORY_MIB_MAX) * MIB,
        gpus,
        milli if gpus else 0,
        _models(row) if gpus else (),
        created,
        deleted,
    )


def _time(row: _Row, column: str) -> int | None:
    return row.number(column, 2**40) if row.fields.get(column, "").strip() else None


def _models(row: _Row) -> tuple[str, ...]:
    """Parse `A|B|A` into A and B; the trace repeats some models."""
    names = [name.strip() for name in row.fields.get("gpu_spec", "").split("|")]
    models = tuple(sorted({name for name in names if name}))
    if len(models) > JOB_MODELS_MAX:
        raise BadRequest(f"{row.where}: {len(models)} GPU models, at most {JOB_MODELS_MAX}")
    return models
