# SPDX-License-Identifier: Apache-2.0
"""The owner of the stream of spooled output: the scheduler that leads makes it and corrects it.

A cluster none of whose jobs asked for a spool has no such stream, so it costs the brokers nothing.
It has as many copies as the log. What JetStream refuses is a line of the log file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from stoker.mesh.broker.spool_bounds import SpoolBounds
from stoker.mesh.connection.requests import Requests
from stoker.mesh.replica.events import EntryTold
from stoker.mesh.wire.output_spool import STREAM, VARIABLE, SpoolConfig
from stoker.mesh.wire.stream_place import on_broker
from stoker.native.errors import StokerError
from stoker.native.structured_log import structlog
from stoker.scheduler.book import Job

API_S: Final = 3.0
_STREAM_NOT_FOUND: Final = 10059
_NAME: Final = VARIABLE.encode()

_log = structlog.get_logger("scheduler")


class _Failure(msgspec.Struct):
    err_code: int = 0
    description: str = ""


class _SpoolInfo(msgspec.Struct):
    error: _Failure | None = None
    config: dict[str, Any] = {}


_infos = msgspec.json.Decoder(_SpoolInfo)


class SpoolOwner:
    """The stream as one scheduler sees it; `copies` returns how many the log has."""

    def __init__(self, requests: Requests, copies: Callable[[], int], bounds: SpoolBounds) -> None:
        self._requests = requests
        self._copies = copies
        self._bounds = bounds
        self._place, self._is_there = "", False
        self._wanted = False
        self._said = ""
        self.hurries = False
        """True from the first job that asked for a spool until the next look."""

    def stay(self, place: str, *, there: bool) -> None:
        """Have a stream of one copy at this broker, whose server was an only one. `there`: it has
        the stream's files, which it would delete if the other brokers were not told at once."""
        self._place, self._is_there = place, there

    def note(self, told: EntryTold) -> None:
        """Note that a job which asked for a spool was placed."""
        if not self._wanted:
            self._wanted = _any_wants(each.job for each in told.changes.decisions)
            self.hurries = self._wanted

    def begin(self, jobs: Iterable[Job]) -> None:
        """Begin to lead: the jobs that are not over may have asked for a spool."""
        self._wanted = self.hurries = self._is_there or _any_wants(jobs)

    async def look(self) -> None:
        """Make or correct the stream, if any job has asked for it."""
        if not self._wanted:
            return
        self.hurries = False
        try:
            why = await self._look()
        except (StokerError, msgspec.MsgspecError) as error:
            why = str(error)
        if why and why != self._said:
            _log.warning("output is not spooled", why=why)
        self._said = why

    async def _look(self) -> str:
        size, age_ns = self._bounds.bytes, self._bounds.age_ns
        copies = self._copies()
        place = on_broker(self._place) if copies == 1 else None
        config = SpoolConfig(num_replicas=copies, max_bytes=size, max_age=age_ns, placement=place)
        body = msgspec.json.encode(config)
        wanted = msgspec.json.decode(body)
        info = await self._call("STREAM.INFO", b"")
        if info.error is not None and info.error.err_code == _STREAM_NOT_FOUND:
            info = await self._call("STREAM.CREATE", body)
        elif info.error is None and any(
            info.config.get(name, type(value)()) != value for name, value in wanted.items()
        ):
            info = await self._call("STREAM.UPDATE", body)
        return info.error.description if info.error is not None else ""

    async def _call(self, call: str, body: bytes) -> _SpoolInfo:
        return _infos.decode(await self._requests.request(f"$JS.API.{call}.{STREAM}", body, API_S))


def _any_wants(jobs: Iterable[Job]) -> bool:
    """Return True if any of these jobs has the variable, by the bytes of its specification."""
    return any(_NAME in job.spec for job in jobs)
