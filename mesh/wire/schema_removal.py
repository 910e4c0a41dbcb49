# SPDX-License-Identifier: Apache-2.0
"""The public messages about the removal of jobs, which are used under the name of `schema`."""

from __future__ import annotations

from stoker.mesh.wire.schema_cluster import Message, Part, ReplyMessage


class RemoveRequest(Message, frozen=True):
    """`job.remove`: forget jobs that are over, and delete their output at their nodes."""

    select: str


class RemovedJob(Part, frozen=True):
    """One selected job; `changed` is false if it was removed before."""

    job: int
    changed: bool


class RemoveView(ReplyMessage, frozen=True):
    """The effect of a removal on each selected job."""

    jobs: tuple[RemovedJob, ...]
