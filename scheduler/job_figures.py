# SPDX-License-Identifier: Apache-2.0
"""The few numbers of a job that every start and every row of a list asks for.

The whole of what the core knows of a job has over fifty fields, and making tuples of them took the
scheduler longer than the core took to find the job. A test compares the numbers with those fields.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from stoker.scheduler import wire_views


class JobFigures(NamedTuple):
    """Numbers of one job; each means what the field of `JobInfo` with its name does."""

    gpu_milli: int
    candidates: int
    attained_ns: int
    charged_ns: int
    spent_ns: int

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        """Make it from exactly one record of a `JobInfo`."""
        f = wire_views._JOB_INFO.unpack(raw)
        return tuple.__new__(cls, (f[59], f[22], f[12], f[13], f[14]))
