# SPDX-License-Identifier: Apache-2.0
"""The bounds of one job and one user without limits of their own: `[jobs]` of config.toml.

The defaults are parts of what all jobs together may have, so that one job or one user leaves room
for others. Bounds in the file are always enforced. A default is for jobs that request no limit, if
it costs a start nothing (cgroup v2).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

PROCESSES_MAX = 1 << 22
"""The kernel's largest number of process ids (PID_MAX_LIMIT)."""
USER_PART, JOB_PART = 4, 8
"""One user gets a quarter of the processes of all jobs, one job an eighth."""
MEMORY_LEFT_PART = 10
"""One job leaves a tenth of the memory of all jobs."""
_Processes = Annotated[int, msgspec.Meta(ge=0, le=PROCESSES_MAX)]
_Bytes = Annotated[int, msgspec.Meta(ge=0)]


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file's bounds; processes include threads. None is the node's default, 0 no bound."""

    processes_per_user: _Processes | None = None
    """Processes of one Unix user in all jobs; unset: a quarter of what all jobs may have."""
    processes_per_job: _Processes | None = None
    """Processes of one job; unset: an eighth of it."""
    memory_per_job: _Bytes | None = None
    """Bytes of memory of one job; unset: nine tenths of the memory of all jobs."""

    def resolve(self, processes: int, memory_bytes: int) -> NodeBounds:
        """Return the node's bounds, given those of all jobs together; 0 is unknown or no bound."""
        user = self.processes_per_user
        return NodeBounds(
            user=processes // USER_PART if user is None else user,
            pids=Limit.of(self.processes_per_job, processes // JOB_PART),
            memory=Limit.of(self.memory_per_job, memory_bytes - memory_bytes // MEMORY_LEFT_PART),
        )


class Limit(msgspec.Struct, frozen=True):
    """A bound of one job; 0 is none. `named`: config.toml sets it, so it is enforced."""

    most: int = 0
    named: bool = False

    @classmethod
    def of(cls, named: int | None, default: int) -> Limit:
        return cls(default) if named is None else cls(named, named=True)

    def enforced(self, requested: int | None) -> int | None:
        """Return the limit to enforce for a job that requests so much, or None."""
        if not self.named or not self.most:
            return requested
        return self.most if requested is None else min(requested, self.most)

    @property
    def default(self) -> int | None:
        """Return the limit to set, if setting it is free, for a job without an enforced one."""
        return self.most or None


class NodeBounds(msgspec.Struct, frozen=True):
    """The bounds of one node."""

    user: int = 0
    """Processes of one Unix user in all jobs together; 0 is no bound."""
    pids: Limit = Limit()
    memory: Limit = Limit()
