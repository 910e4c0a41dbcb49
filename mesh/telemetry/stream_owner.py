# SPDX-License-Identifier: Apache-2.0
"""The owner of telemetry's streams: it makes missing ones and corrects those with other bounds.

The scheduler that leads calls `look` every few seconds. What JetStream refuses is one line of
`problems`; telemetry then goes on live, and nothing else of the node is affected.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.mesh.connection.requests import Requests
from stoker.mesh.wire.telemetry_streams import STREAMS, TelemetryStream, config_of
from stoker.native.errors import StokerError, Unavailable

API_TIMEOUT_S = 3.0
LOST_AFTER = 5
"""A stream whose broker is away for this many looks is given up and made again elsewhere."""
_STREAM_NOT_FOUND = 10059
_OFFLINE = (10118, 10008)
"""The answers for a stream whose only broker is away (nats-server errors.json)."""


class StreamFigures(msgspec.Struct, kw_only=True, frozen=True):
    """The contents of one stream, from JetStream itself."""

    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    first_ts: str = ""


class _Error(msgspec.Struct):
    err_code: int = 0
    description: str = ""


class _Info(msgspec.Struct):
    error: _Error | None = None
    config: dict[str, Any] = {}
    state: StreamFigures | None = None


_infos = msgspec.json.Decoder(_Info)


class StreamOwner:
    """The streams of telemetry as they are now; `requests` are on a connection of telemetry."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self.figures: dict[str, StreamFigures] = {}
        """The contents of each stream at the latest look, by kind, of those there are."""
        self.problems: dict[str, str] = {}
        """The reasons why kinds are not kept, or are kept with other bounds."""
        self.looked = False
        """True once all streams were looked at."""
        self.made = 0
        self.corrected = 0
        self._away: dict[str, int] = {}

    async def look(self) -> None:
        """Look at all streams once; make or correct what is not as it should be."""
        for stream in STREAMS:
            try:
                problem = await self._look_at(stream)
            except StokerError as error:
                problem = error.message
            if problem:
                self.problems[stream.kind] = problem
                self.figures.pop(stream.kind, None)
            else:
                self.problems.pop(stream.kind, None)
        self.looked = True

    async def figures_now(self, stream: TelemetryStream) -> StreamFigures:
        """Return what a stream holds now; Unavailable if it is not there."""
        info = await self._call("STREAM.INFO", stream, b"")
        if info.error is not None or info.state is None:
            why = info.error.description if info.error is not None else "no state"
            raise Unavailable(f"{stream.kind} are not kept: {why}")
        return info.state

    async def _look_at(self, stream: TelemetryStream) -> str:
        """Return why the stream is not as it should be, or an empty string."""
        body = msgspec.json.encode(config_of(stream))
        wanted = msgspec.json.decode(body)
        info = await self._call("STREAM.INFO", stream, b"")
        if info.error is not None and info.error.err_code == _STREAM_NOT_FOUND:
            info = await self._call("STREAM.CREATE", stream, body)
            self.made += info.error is None
        elif info.error is not None and info.error.err_code in _OFFLINE:
            return await self._give_up(stream, info.error.description)
        elif info.error is None and (other := _differing(info.config, wanted)):
            info = await self._call("STREAM.UPDATE", stream, body)
            if info.error is not None:
                return (
                    f"{stream.name} exists with other settings ({', '.join(other)}) that JetStream"
                    f" does not change: {info.error.description}; remove that stream"
                )
            self.corrected += 1
        if info.error is not None:
            return f"{stream.name}: {info.error.description}"
        self._away.pop(stream.kind, None)
        if info.state is not None:
            self.figures[stream.kind] = info.state
        return ""

    async def _give_up(self, stream: TelemetryStream, why: str) -> str:
        """Remove a stream whose broker stays away, so that the next look makes it elsewhere."""
        away = self._away[stream.kind] = self._away.get(stream.kind, 0) + 1
        if away >= LOST_AFTER:
            await self._call("STREAM.DELETE", stream, b"")
        return f"{stream.name}: {why}"

    async def _call(self, call: str, stream: TelemetryStream, body: bytes) -> _Info:
        subject = f"$JS.API.{call}.{stream.name}"
        data = await self._requests.request(subject, body, API_TIMEOUT_S)
        try:
            return _infos.decode(data)
        except msgspec.MsgspecError as error:
            raise Unavailable(f"JetStream's answer to {call}: {error}") from None


def _differing(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Return the names of wanted settings that a stream has otherwise; an absent one is unset."""
    return [name for name, value in wanted.items() if found.get(name, type(value)()) != value]
