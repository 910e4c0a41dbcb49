# SPDX-License-Identifier: Apache-2.0
"""Signs how far this scheduler has applied the log: with each snapshot, behind which the archive is
cut, and at the latest every CHECKPOINT_S while entries come.

Nothing is decided by a checkpoint. One that cannot be written is a line of the log file, and the
scheduler goes on.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import signed_checkpoint
from stoker.mesh.log.signed_checkpoint import FILE, SignedCheckpoint
from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.snapshots import Snapshot, agreement
from stoker.native.errors import Corrupt
from stoker.native.structured_log import structlog

CHECKPOINT_S: Final = 600.0
TOLD_MAX: Final = 128
"""The newest checkpoints that an auditor is told; each is one over all entries before it."""

_log = structlog.get_logger("scheduler")


class CheckpointDesk:
    """The checkpoints of one scheduler, in a file of the folder of its archive."""

    def __init__(self, replica: Replica, identity: Identity, archive: Path) -> None:
        self._replica = replica
        self._identity = identity
        self._path = archive / FILE
        self._newest = 0
        self._writing = asyncio.Lock()

    async def saved(self, snapshot: Snapshot) -> None:
        """Sign a state of which a snapshot was saved."""
        digest = await asyncio.to_thread(agreement, snapshot)
        await self._sign(snapshot.index, snapshot.hash, snapshot.trail, digest)

    async def period(self) -> None:
        """Sign the head of what is applied, if that is further than the newest checkpoint."""
        state = self._replica.state
        if state.index > self._newest:
            await self._sign(state.index, state.hash, state.trail)

    async def _sign(self, index: int, digest: bytes, trail: bytes, state: bytes = b"") -> None:
        made = SignedCheckpoint(
            cluster=self._replica.state.cluster,
            index=index,
            hash=digest.hex(),
            trail=trail.hex(),
            state=state.hex(),
            t_ns=time.time_ns(),
            key=self._identity.public,
        )
        signed = signed_checkpoint.signed(made, self._identity)
        try:
            async with self._writing:
                await asyncio.to_thread(signed_checkpoint.append, self._path, signed)
        except (OSError, Corrupt) as error:
            _log.warning("a checkpoint was not written", index=index, why=str(error))
            return
        self._newest = max(self._newest, index)

    def told(self, end: int) -> tuple[SignedCheckpoint, ...]:
        """Return the newest checkpoints up to an entry. Corrupt if the file is damaged."""
        found = [each for each in signed_checkpoint.read(self._path) if each.index <= end]
        return tuple(found[-TOLD_MAX:])
