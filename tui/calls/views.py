# SPDX-License-Identifier: Apache-2.0
"""Replies of the schema as the plain objects that tables, report and `-o json` show.

Pure. The object of `stoker job -o json` is the reply, with the kernels and copies of its trace and
the rows of its devices at the top level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from stoker.mesh.wire import schema
from stoker.native.errors import NotFound

NO_SUCH_PROGRAM = ("no such file", "not found", "enoent")
TIMED_OUT, LOST, NOT_STARTED, NOT_FOUND, TERMINATED = 124, 125, 126, 127, 143
"""The exit codes of `run` and `wait` beside the job's own, as in timeout(1) and env(1)."""


class ReadRows(NamedTuple):
    """Rows that any scheduler can show, and the position in the log that they reflect."""

    rows: list[dict[str, Any]]
    position: schema.LogPosition | None


def row(message: schema.Message) -> dict[str, Any]:
    """One reply as a plain object, with embedded JSON parsed and bytes in base64."""
    value = msgspec.json.decode(schema.encode(message))
    assert isinstance(value, dict)
    return value


def part(view: msgspec.Struct) -> dict[str, Any]:
    """A reply inside a list, without the `schema` that the list has."""
    value = msgspec.json.decode(msgspec.json.encode(view))
    assert isinstance(value, dict)
    value.pop("schema", None)
    return value


def job_object(
    job: schema.JobView, devices: Sequence[schema.DeviceView], nodes: Sequence[schema.NodeView]
) -> dict[str, Any]:
    """The object of `stoker job -o json`, from which the report is made too."""
    value = row(job)
    trace = value.get("trace") or {}
    value["kernels"] = trace.get("kernels") or []
    value["copies"] = trace.get("copies") or []
    granted = [(job.decision.node, d.id) for d in job.decision.devices] if job.decision else []
    granted += [(rank.node, device.id) for rank in job.ranks for device in rank.devices]
    value["hardware"] = [part(d) for d in devices if (d.node, d.id) in granted]
    where = job.nodes or ((job.decision.node,) if job.decision is not None else ())
    here = [node for node in nodes if node.node in where]
    value["missing"] = [sentence for node in here for sentence in node.missing]
    return value


def rank_time(rank: int, job: schema.JobView) -> dict[str, Any]:
    """The time of a rank's devices by causes, added up; `absent` is the reason if it is unknown."""
    trace = row(job).get("trace") or {}
    causes: Counter[str] = Counter()
    for device in trace.get("devices") or ():
        causes.update({name: spent or 0 for name, spent in device["causes"].items()})
    window_ns = sum(device["window_ns"] for device in trace.get("devices") or ())
    absent = job.trace_absent or ("" if window_ns else "no device of it was called")
    energy = [device.get("energy") for device in trace.get("devices") or ()]
    return {
        "rank": rank, "window_ns": window_ns, "causes": dict(causes), "absent": absent,
        "energy": energy,
    }  # fmt: skip


def check_rank(job: int, tasks: int, rank: int | None) -> None:
    """Raise NotFound if a job has no such rank; None stands for all of them."""
    if rank is not None and rank >= tasks:
        known = f"ranks 0 to {tasks - 1}" if tasks > 1 else "one task, rank 0"
        raise NotFound(f"job {job} has no rank {rank}: it has {known}")


def exit_of_row(job: schema.JobView) -> int:
    """The exit code of an ended job; 0 or 1 for an array with one row."""
    if job.array is not None and job.array.states:
        return int(job.array.states.keys() != {"succeeded"})
    return exit_code(job)


def exit_code(job: schema.JobView) -> int:
    """The exit code of `run` and `wait` for an ended job."""
    if job.state == "timeout":
        return TIMED_OUT
    if job.signal is not None:
        return 128 + job.signal
    if job.exit_code is not None:
        return job.exit_code
    if job.state == "lost":
        return LOST
    if job.state == "cancelled":
        return TERMINATED
    missing = any(words in job.reason.lower() for words in NO_SUCH_PROGRAM)
    return NOT_FOUND if missing else NOT_STARTED
