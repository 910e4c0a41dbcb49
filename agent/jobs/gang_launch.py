# SPDX-License-Identifier: Apache-2.0
"""The programs of an mpi gang: rank 0 runs the job's program behind what gathers the other ranks,
and each other rank runs what serves it (`rank_launcher.py`).

Pure. Owns the number of processes that a task offers to a launcher.
"""

from __future__ import annotations

from stoker.native.errors import BadRequest
from stoker.scheduler.nouns import MILLI, JobSpec, StartJob


def argv(start: StartJob, launcher: tuple[str, ...]) -> tuple[str, ...]:
    """Return the program of this task; BadRequest if this node cannot run the launcher.

    `launcher`: the interpreter with the launcher's script.
    """
    if not is_launched(start):
        return start.spec.argv
    if not launcher:
        raise BadRequest(
            "an mpi gang needs a Python interpreter that its user can run, and this node has none:"
            " neither its own nor /usr/bin/python3"
        )
    return (*launcher, "serve") if start.task else (*launcher, "lead", *start.spec.argv)


def variables(start: StartJob) -> dict[str, str]:
    """Return the variables that the launcher needs; none for other jobs."""
    if not is_launched(start):
        return {}
    return {
        "STOKER_LAUNCH_KEY": start.spec.launch_key,
        "STOKER_SLOTS": str(slots(start.spec)),
    }


def is_launched(start: StartJob) -> bool:
    """True for a task of a gang of which rank 0 starts what runs in the others."""
    return start.spec.mpi and start.gang is not None


def slots(spec: JobSpec) -> int:
    """Return how many processes a task offers: one for each whole device, or else for each CPU."""
    return max(1, spec.gpu_milli // MILLI or (spec.cpu_milli or 0) // MILLI)
