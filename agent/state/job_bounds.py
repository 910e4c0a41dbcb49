# SPDX-License-Identifier: Apache-2.0
"""What a job and a user may take of the node without asking: `[jobs]` of config.toml.

Owns the defaults, parts of what all jobs together may have, so that one job or one user leaves room
for others. What the file names is always enforced, and no job has more; a default is for those who
ask for nothing, where it costs a start nothing (cgroup v2).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

PROCESSES_MAX = 1 << 22
"""The kernel has no more process ids (PID_MAX_LIMIT)."""
USER_PART, JOB_PART = 4, 8
"""One user is given a quarter of the processes of all jobs, one job an eighth."""
MEMORY_LEFT_PART = 10
"""One job leaves a tenth of the memory of all jobs."""
_Processes = Annotated[int, msgspec.Meta(ge=0, le=PROCESSES_MAX)]
_Bytes = Annotated[int, msgspec.Meta(ge=0)]


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Processes count with their threads. None is the node's default, 0 is no bound."""

    processes_per_user: _Processes | None = None
    processes_per_job: _Processes | None = None
    memory_per_job: _Bytes | None = None

    def resolve(self, processes: int, memory_bytes: int) -> NodeBounds:
        """What holds where all jobs together may have so much; 0 is not known or not bounded."""
        user = self.processes_per_user
        return NodeBounds(
            user=processes // USER_PART if user is None else user,
            pids=Limit.of(self.processes_per_job, processes // JOB_PART),
            memory=Limit.of(self.memory_per_job, memory_bytes - memory_bytes // MEMORY_LEFT_PART),
        )


class Limit(msgspec.Struct, frozen=True):
    """A bound of one job; 0 is none. `named`: an operator wrote it down, so it is enforced."""

    most: int = 0
    named: bool = False

    @classmethod
    def of(cls, named: int | None, default: int) -> Limit:
        return cls(default) if named is None else cls(named, named=True)

    def enforced(self, asked: int | None) -> int | None:
        """What is to be enforced for a job that asks for so much, or for nothing."""
        if not self.named or not self.most:
            return asked
        return self.most if asked is None else min(asked, self.most)

    @property
    def default(self) -> int | None:
        """What holds where it is free, for a job that nothing is enforced for."""
        return self.most or None


class NodeBounds(msgspec.Struct, frozen=True):
    """The bounds of one node."""

    user: int = 0
    """Processes of one Unix user, all jobs together; 0 is none."""
    pids: Limit = Limit()
    memory: Limit = Limit()
