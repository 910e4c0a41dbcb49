# SPDX-License-Identifier: Apache-2.0
"""The public messages about the removal of jobs.

Used under the name of `mesh/wire/schema.py`: a file of its own because of that one's size.
"""

from __future__ import annotations

from stoker.mesh.wire.schema_cluster import Message, Part


class RemoveRequest(Message, frozen=True):
    """`job.remove`: forget jobs that are over, and delete what they wrote at their nodes."""

    select: str


class RemovedJob(Part, frozen=True):
    """One selected job; `changed` false: it was removed before."""

    job: int
    changed: bool


class RemoveView(Message, frozen=True):
    """What the removal did."""

    jobs: tuple[RemovedJob, ...]
