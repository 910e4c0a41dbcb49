# SPDX-License-Identifier: Apache-2.0
"""The log of a state folder, with the folder's record of how far it reached.

Guarantees that only a new state makes the log's stream, and that its tail is recorded.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from stoker.mesh.connection.broker_connection import RECONNECT_S
from stoker.mesh.log import log_record
from stoker.mesh.log.jetstream_log import JetStreamLog, StreamGone
from stoker.mesh.replica.replica import Replica
from stoker.native.errors import Refused, Unavailable
from stoker.native.structured_log import structlog

log = structlog.get_logger("scheduler")


class RecordedLog:
    """The record of one log in the scheduler's folder; `tail` is an entry that it must hold."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._record = log_record.read(folder)
        self._recorded = 0

    @property
    def tail(self) -> int:
        """The acknowledged entry of the record at the start of the process, or 0."""
        return self._record.tail if self._record is not None else 0

    @property
    def is_new(self) -> bool:
        """True if this folder was made for a new cluster, and has never seen its log."""
        return self._record is not None and self._record.is_new

    async def open(self, engine: JetStreamLog) -> None:
        """Open the stream as soon as the broker answers; make it if it was never made.

        Raises Corrupt if the stream is gone.
        """
        while True:
            try:
                await engine.open(may_make=self.is_new)
                break
            except StreamGone:
                raise log_record.vanished(self._folder) from None
            except Unavailable as error:
                log.warning("no log yet", error=error.message)
                await asyncio.sleep(RECONNECT_S)
        if self._record is None or self.is_new:
            log_record.made(self._folder, 0)

    def record(self, replica: Replica) -> None:
        """Record the tail of a leading replica; later entries could be lost unnoticed."""
        tail = replica.state.seen
        if replica.role == "leading" and tail > self._recorded:
            try:
                log_record.reached(self._folder, tail)
                self._recorded = tail
            except Refused as error:
                log.warning("the log's length is not recorded", why=error.message)

    def remedy(self, replica: Replica) -> str:
        """Return what to do if the log ended before its recorded tail, else an empty string."""
        return log_record.remedy(self._folder) if replica.state.seen < self.tail else ""
