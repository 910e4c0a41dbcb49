# SPDX-License-Identifier: Apache-2.0
"""The owner of telemetry's streams: it makes missing ones and corrects those with other bounds.

The scheduler that leads calls `look` every few seconds. What JetStream refuses is one line of
`problems`; telemetry then goes on live, and nothing else of the node is affected.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec

from stoker.mesh.connection.requests import Requests
from stoker.mesh.wire.telemetry_streams import STREAMS, TelemetryStream, config_of
from stoker.native.errors import StokerError, Unavailable

API_TIMEOUT_S = 3.0
INFO_TIMEOUT_S = 1.0
LOST_AFTER = 5
"""A stream that is silent for this many looks, while others answer, is made again elsewhere."""
SILENT = "its broker does not answer"
_STREAM_NOT_FOUND = 10059


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
        self._silent: dict[str, int] = {}
        self._looking = asyncio.Lock()

    async def look(self) -> None:
        """Look at all streams once; make or correct what is not as it should be.

        One look waits for another: if two made a stream at once, JetStream would find no memory
        for the second, since the first has it.
        """
        async with self._looking:
            await self._look()

    async def _look(self) -> None:
        found = await asyncio.gather(*(self._problem(stream) for stream in STREAMS))
        answered = any(problem != SILENT for problem in found)
        for stream, problem in zip(STREAMS, found, strict=True):
            if problem:
                self.problems[stream.kind] = problem
                self.figures.pop(stream.kind, None)
            else:
                self.problems.pop(stream.kind, None)
            if problem != SILENT:
                self._silent.pop(stream.kind, None)
            elif answered:
                await self._give_up(stream)
        self.looked = True

    async def _problem(self, stream: TelemetryStream) -> str:
        try:
            return await self._look_at(stream)
        except StokerError as error:
            return error.message

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
        try:
            info = await self._call("STREAM.INFO", stream, b"", INFO_TIMEOUT_S)
        except Unavailable:
            return SILENT
        if info.error is not None and info.error.err_code == _STREAM_NOT_FOUND:
            info = await self._call("STREAM.CREATE", stream, body)
            self.made += info.error is None
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
        if info.state is not None:
            self.figures[stream.kind] = info.state
        return ""

    async def _give_up(self, stream: TelemetryStream) -> None:
        """Remove a stream whose only broker is away while others answer, after some looks. What it
        held is lost with its broker, and the next look makes it at another one."""
        silent = self._silent[stream.kind] = self._silent.get(stream.kind, 0) + 1
        if silent >= LOST_AFTER:
            with contextlib.suppress(Unavailable):  # it is removed, though nobody may say so
                await self._call("STREAM.DELETE", stream, b"", INFO_TIMEOUT_S)

    async def _call(
        self, call: str, stream: TelemetryStream, body: bytes, timeout_s: float = API_TIMEOUT_S
    ) -> _Info:
        data = await self._requests.request(f"$JS.API.{call}.{stream.name}", body, timeout_s)
        try:
            return _infos.decode(data)
        except msgspec.MsgspecError as error:
            raise Unavailable(f"JetStream's answer to {call}: {error}") from None


def _differing(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Return the names of wanted settings that a stream has otherwise; an absent one is unset."""
    return [name for name, value in wanted.items() if found.get(name, type(value)()) != value]
