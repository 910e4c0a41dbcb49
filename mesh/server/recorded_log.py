# SPDX-License-Identifier: Apache-2.0
"""The log of a state folder, with the folder's record of how far it reached.

Guarantees that only a new state of a founder makes the log's stream, that its tail is recorded, and
that an only server which became one of several goes on with a whole log alone.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from stoker.mesh.connection.broker_connection import RECONNECT_S
from stoker.mesh.log import kept_log, log_record
from stoker.mesh.log.jetstream_log import JetStreamLog, StreamGone
from stoker.mesh.replica.replica import Replica
from stoker.mesh.server import notify
from stoker.mesh.wire import output_spool
from stoker.native.errors import Refused, Unavailable
from stoker.native.structured_log import structlog

AGAIN_S = 11.0
"""The pause between two requests for a broker that begins again; a younger one is left alone."""

log = structlog.get_logger("scheduler")


class RecordedLog:
    """The record of one log in the scheduler's folder; `tail` is an entry that it must hold."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._record = log_record.read(folder)
        self._recorded = 0
        self._nats = folder.parent / "nats"
        self._asked_s = -AGAIN_S

    @property
    def tail(self) -> int:
        """The acknowledged entry of the record at the start of the process, or 0."""
        return self._record.tail if self._record is not None else 0

    @property
    def is_new(self) -> bool:
        """True if this folder was made for a new cluster, and has never seen its log."""
        return self._record is not None and self._record.is_new

    def has_spool(self, engine: JetStreamLog) -> bool:
        """True if the broker here has spooled output of which those beside it do not know: it was
        the one of an only server until now."""
        return bool(engine.place) and kept_log.has_files(self._nats, output_spool.STREAM)

    async def open(self, engine: JetStreamLog, *, founds: bool, broker: str) -> None:
        """Open the stream as soon as the broker answers; make it if it was never made.

        `founds`: the genesis names this scheduler. Another one makes no stream, since it may be up
        before the one that has the log. `broker`: the own one. Raises Corrupt if the stream is
        gone.
        """
        while True:
            keeps = kept_log.is_kept(self._nats)
            try:
                await engine.open(
                    may_make=keeps or (self.is_new and founds), place=broker if keeps else ""
                )
                if not keeps or self._is_whole(engine):
                    break
            except StreamGone:
                if not self.is_new:
                    raise log_record.vanished(self._folder) from None
                log.warning("no log yet", error="its first server has not made it")
            except Unavailable as error:
                log.warning("no log yet", error=error.message)
            await asyncio.sleep(RECONNECT_S)
        if self._record is None or self.is_new:
            log_record.made(self._folder, 0)

    def _is_whole(self, engine: JetStreamLog) -> bool:
        """Give the copy of an only server's log up once its stream among several brokers has all
        entries; else have the broker begin again with the copy."""
        if engine.last >= max(1, self.tail):
            whole = kept_log.drop(self._nats)
            log.info("the log is one of several brokers now", entries=engine.last, whole=whole)
            return whole  # else this server is to be alone again, and this process about to end
        if time.monotonic() - self._asked_s > AGAIN_S:
            self._asked_s = time.monotonic()
            log.warning("the broker has lost the log", has=engine.last, wanted=self.tail)
            notify.status("broker-restart: it has lost the log, of which there is a copy")
        return False

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
