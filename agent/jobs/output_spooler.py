# SPDX-License-Identifier: Apache-2.0
"""Sends the output of jobs that asked for it to the brokers while they run, piece by piece.

Nothing is held in memory: what was not taken is read from the job's files again. One piece is on
its way at a time, and PIECES_S bounds those of the node, so no job's output can take the brokers
from the log. Without such a job the task sleeps. Owns that bytes which were not spooled are
counted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from stoker.agent.jobs.spooled_attempt import (
    SpooledAttempt,
    SpooledStream,
    SpoolRecords,
    due,
    spooled_attempt,
)
from stoker.mesh.wire import output_spool, subjects
from stoker.native.errors import StokerError, Unavailable
from stoker.native.structured_log import structlog
from stoker.scheduler.nouns import StartJob, TaskKey

PIECES_S: Final = 8
"""The most pieces of this node in a second: with pieces of 64 KiB these are 512 KiB."""
LOOK_S: Final = 0.5
"""Seconds between two looks at files of which nothing was due."""
RETRY_S: Final = (0.5, 30.0)
"""The first and the longest pause after a piece that was not taken."""
ANSWER_S: Final = 5.0
ATTEMPTS_MAX: Final = 1024
"""The most attempts of one node whose output is spooled at a time."""

_log = structlog.get_logger("output")

Send = Callable[[str, bytes, float], Awaitable[bytes]]
"""Sends a request (subject, payload, timeout_s) and returns the broker's answer."""


class _Refused(msgspec.Struct):
    description: str = ""


class _Taken(msgspec.Struct):
    """The broker's answer to a piece."""

    error: _Refused | None = None
    seq: int = 0


_answers = msgspec.json.Decoder(_Taken)


class OutputFiles(NamedTuple):
    """The files of attempts on this node, and what they do not show."""

    jobs: Path
    lives: Callable[[TaskKey], bool]
    """True for an attempt whose end the log has not; its files may still grow."""
    dropped: Callable[[TaskKey], int]
    """Return the bytes that the limit of output of an ended attempt cut off."""


class OutputSpooler:
    """The spooled attempts of one node."""

    def __init__(self, node: str, files: OutputFiles, records: SpoolRecords, send: Send) -> None:
        self._node = node
        self._files = files
        self._records = records
        self._send = send
        self._attempts = deque(records.read(), ATTEMPTS_MAX)
        self._some = asyncio.Event()
        if self._attempts:
            self._some.set()
        self._told = ""
        self.counters: Counter[str] = Counter()

    def begin(self, start: StartJob) -> None:
        """Spool the output of an attempt from now on, if its job asked for it."""
        limit = output_spool.bytes_of(start.spec.env)
        if not limit or any(each.key == start.key for each in self._attempts):
            return
        if len(self._attempts) >= ATTEMPTS_MAX:
            self.counters["output_spool_refused"] += 1
            return
        self._attempts.append(spooled_attempt(start.key, limit, time.time()))
        self._some.set()

    async def run(self) -> None:
        """Send what is due for ever; a broker that takes nothing is tried again after a pause."""
        pause = RETRY_S[0]
        while True:
            await self._some.wait()
            try:
                sent = await self._round()
            except (StokerError, OSError) as error:
                self._tell(str(error))
                self._attempts.rotate(-1)  # so that one of them never holds up the others
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY_S[1])
                continue
            pause = RETRY_S[0]
            if not sent:
                await asyncio.sleep(LOOK_S)

    async def _round(self) -> bool:
        """Send at most one piece of each stream; return True if there was any."""
        sent = False
        for attempt in list(self._attempts):
            for each in attempt.streams:
                sent |= await self._next(attempt, each)
            if not attempt.open:
                self._attempts.remove(attempt)
                self._records.drop(attempt)
        if not self._attempts:
            self._some.clear()
        return sent

    async def _next(self, attempt: SpooledAttempt, each: SpooledStream) -> bool:
        now_s, lives = time.time(), self._files.lives(attempt.key)
        piece = due(self._files.jobs, attempt, each, now_s, lives=lives)
        if piece is None:
            return False
        if piece.over:
            piece = msgspec.structs.replace(piece, dropped=self._files.dropped(attempt.key))
        self._records.write(attempt)
        subject = subjects.spooled_output(self._node, attempt.key, each.stream)
        _check(await self._send(subject, output_spool.encode(piece), ANSWER_S))
        each.end, each.closed, each.sent_s = piece.end, piece.over, now_s
        each.pieces += 1
        self._count(piece)
        await asyncio.sleep(1 / PIECES_S)
        return True

    def _count(self, piece: output_spool.OutputPiece) -> None:
        self._told = ""
        self.counters["output_spooled_pieces"] += 1
        self.counters["output_spooled_bytes"] += len(piece.data)
        if piece.over:
            self.counters["output_unspooled_bytes"] += piece.size - piece.end

    def _tell(self, why: str) -> None:
        """Count a piece that was not taken; each reason is written once until one is."""
        self.counters["output_spool_failed"] += 1
        if why != self._told:
            _log.warning("output is not spooled now", why=why)
        self._told = why


def _check(answer: bytes) -> None:
    """Raise Unavailable unless the brokers have stored a piece."""
    try:
        taken = _answers.decode(answer)
    except msgspec.MsgspecError as error:
        raise Unavailable(f"the broker's answer to a piece of output: {error}") from None
    if taken.error is not None or not taken.seq:
        why = taken.error.description if taken.error is not None else "it gave no number"
        raise Unavailable(f"the broker took no piece of output: {why}")
