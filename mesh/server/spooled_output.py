# SPDX-License-Identifier: Apache-2.0
"""Reads spooled output by its offset, from a stream whose messages have numbers alone.

A piece is found by bisection, or by the place where the last reading of its stream ended. Owns that
a byte comes from its own offset: pieces that came twice overlap, and pieces that were discarded
leave a gap, which is told.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

import msgspec
import nats.errors
from nats.aio.client import Client as Connection

from stoker.mesh.wire import output_spool, subjects
from stoker.mesh.wire.output_spool import STREAM, OutputPiece
from stoker.native.errors import NotFound, Unavailable
from stoker.scheduler.nouns import TaskKey

READ_S: Final = 3.0
PLACES_KEPT: Final = 256
"""The streams of attempts of which the place of the last reading is remembered."""


class SpooledPart(NamedTuple):
    """A part of a spooled stream. `said` tells up to where the spool is whole."""

    data: bytes
    next_offset: int
    over: bool
    """True if the spool has nothing after this part."""
    said: str
    lacks: bool
    """True if the attempt may have written more than the spool has."""


class _Kept(NamedTuple):
    """A piece with its number in the stream."""

    seq: int
    piece: OutputPiece


class SpooledOutput:
    """The spool as one scheduler reads it, on a connection that carries no decision."""

    def __init__(self, connection: Connection) -> None:
        self._nc = connection
        self._places: OrderedDict[str, _Kept] = OrderedDict()

    async def read(
        self, node: str, key: TaskKey, stream: str, offset: int, limit: int
    ) -> SpooledPart | None:
        """Return what is at an offset or after a gap there; None if nothing was spooled.

        Unavailable if the brokers do not answer.
        """
        subject = subjects.spooled_output(node, key, stream)
        last = await self._get({"last_by_subj": subject})
        if last is None:
            return None
        data, end = b"", offset
        if offset < last.piece.end:
            found = await self._at(subject, offset, last)
            skipped = max(0, offset - found.piece.offset)
            data = found.piece.data[skipped : skipped + limit]
            end = max(offset, found.piece.offset) + len(data)
        over = end >= last.piece.end
        words, lacks = output_spool.words(last.piece, stream), not output_spool.whole(last.piece)
        if over and (gone := (await self._next(subject, 1)).piece.offset):
            words, lacks = f"{words}; the first {gone:,} of them were discarded since", True
        return SpooledPart(data, end, over, words, lacks)

    async def _at(self, subject: str, offset: int, last: _Kept) -> _Kept:
        """Return the piece with the byte at an offset, or the first one after it."""
        place = self._places.pop(subject, None)
        if place is not None and place.piece.end == offset:
            place = await self._next(subject, place.seq + 1)
        if place is None or not place.piece.offset <= offset < place.piece.end:
            place = await self._search(subject, offset, last)
        self._places[subject] = place
        if len(self._places) > PLACES_KEPT:
            self._places.popitem(last=False)
        return place

    async def _search(self, subject: str, offset: int, last: _Kept) -> _Kept:
        low = await self._next(subject, 1)
        if low.piece.offset > offset:
            return low
        high = last.seq
        while low.seq < high:
            middle = (low.seq + high + 1) // 2
            found = await self._next(subject, middle)
            if found.piece.offset <= offset:
                low = found
            else:
                high = middle - 1
        return low if offset < low.piece.end else await self._next(subject, low.seq + 1)

    async def _next(self, subject: str, seq: int) -> _Kept:
        """Return the first piece from a number on; NotFound if it was discarded meanwhile."""
        found = await self._get({"seq": seq, "next_by_subj": subject})
        if found is None:
            raise NotFound("the spooled output was discarded while it was read")
        return found

    async def _get(self, request: dict[str, object]) -> _Kept | None:
        call = f"$JS.API.DIRECT.GET.{STREAM}"
        try:
            message = await self._nc.request(call, msgspec.json.encode(request), timeout=READ_S)
        except nats.errors.NoRespondersError:
            return None  # no job has asked for a spool yet
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise Unavailable(f"the spooled output cannot be read now: {error!r}") from None
        headers = message.headers or {}
        status = headers.get("Status")
        if status == "404":
            return None
        if status is not None:
            raise Unavailable(f"the spooled output: {status} {headers.get('Description', '')}")
        try:
            return _Kept(int(headers["Nats-Sequence"]), output_spool.decode(message.data))
        except (msgspec.MsgspecError, KeyError, ValueError) as error:
            raise Unavailable(f"a piece of spooled output cannot be read: {error!r}") from None
