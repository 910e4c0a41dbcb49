# SPDX-License-Identifier: Apache-2.0
"""The scheduler's telemetry: it publishes what entries say, owns the streams, reads them for users.

The stream of spooled output is owned and read here as well. On a connection of its own, which
carries nothing that anybody waits for in order to decide. Owns who reads what: users see what is
about their own jobs, administrators see all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import nats.errors

from stoker.mesh.broker.spool_bounds import SpoolBounds
from stoker.mesh.connection.local_connection import LocalConnection
from stoker.mesh.connection.requests import Requests
from stoker.mesh.replica.events import EntryTold
from stoker.mesh.server import telemetry_rows
from stoker.mesh.server.service import Caller
from stoker.mesh.server.spool_owner import SpoolOwner
from stoker.mesh.server.spooled_output import SpooledOutput
from stoker.mesh.telemetry.outgoing_batches import OutgoingBatches
from stoker.mesh.telemetry.stream_history import StreamHistory
from stoker.mesh.telemetry.stream_owner import StreamOwner
from stoker.mesh.telemetry.stream_reader import NS, Cursor, KeptMessage, StreamReader, nanoseconds
from stoker.mesh.wire import node_messages, schema, schema_telemetry, subjects
from stoker.mesh.wire.telemetry import ChangeRow
from stoker.mesh.wire.telemetry_streams import (
    STREAM_AGE_S,
    STREAM_BYTES,
    STREAMS,
    TelemetryStream,
    stream_of,
)
from stoker.native.errors import BadRequest, StokerError
from stoker.native.structured_log import structlog
from stoker.scheduler.nouns import NodeReport, Observation, Record

UNSENT_BYTES_MAX = 4 << 20
"""Telemetry waits here while the connection has this much of it that the broker does not read."""
READ_BYTES_MAX = 256 * 1024
"""The most kept bytes that one reading fetches."""
READ_OBSERVATIONS_MAX = 64 * 1024
"""The most bytes of observations, which are several times as long as JSON."""
LOOK_EVERY = 3
"""Every so many seconds the leader looks at the streams."""

_log = structlog.get_logger("scheduler")


class TelemetryDesk:
    """The telemetry of one scheduler; `origin` names this process for those who count messages."""

    def __init__(
        self,
        origin: str,
        leads: Callable[[], bool],
        nodes: Callable[[], Mapping[str, NodeReport]],
        copies: Callable[[], int],
        spool: SpoolBounds,
    ) -> None:
        self.nc = LocalConnection()
        self.requests = Requests(self.nc)
        self.owner = StreamOwner(self.requests)
        self.spool = SpoolOwner(self.requests, copies, spool)
        self.spooled = SpooledOutput(self.nc)
        self._history = StreamHistory()
        self._reader = StreamReader(self.nc)
        self._batches = OutgoingBatches(origin)
        self._leads = leads
        self._nodes = nodes
        self._seconds = 0
        self._said: dict[str, str] = {}

    @property
    def counters(self) -> dict[str, int]:
        """Named counters since the start of the process."""
        return {
            "telemetry_dropped": self._batches.dropped,
            "telemetry_discarded": sum(self._history.discarded.values()),
            "telemetry_streams_made": self.owner.made,
        }

    async def committed(self, effect: EntryTold) -> None:
        """Take what an entry says; it is published at the next `flush`."""
        telemetry_rows.put(self._batches, effect, self._nodes())
        self.spool.note(effect)

    def tell(self, row: ChangeRow, index: int) -> None:
        """Tell a change of the cluster that is no entry; `index` is the newest entry."""
        self._batches.put(telemetry_rows.CLUSTER, row, index)

    def leads(self, term: int, t_ns: int, index: int) -> None:
        """Tell that this scheduler leads from now on."""
        telemetry_rows.put_leader(self._batches, term, t_ns, index)

    async def flush(self) -> None:
        """Publish what waits, without an answer. Without a broker it waits on, and what is beyond
        the bounds of `OutgoingBatches` is dropped and counted."""
        if not self._batches or not self._may_send():
            return
        if not self.owner.looked and self._may_look():
            await self._look()  # so that what is told first is kept, too
        for subject, data in self._batches.take():
            if not self._may_send():
                self._batches.lose()
                continue
            try:
                await self.nc.publish(subject, data)
            except (nats.errors.Error, OSError):
                self._batches.lose()

    async def second(self) -> None:
        """Look at the streams now and then; only the leader owns them."""
        self._seconds += 1
        looks = self._seconds % LOOK_EVERY == 1
        if looks and self._may_look():
            await self._look()
        if (looks or self.spool.hurries) and self._may_look():
            await self.spool.look()

    async def lost(self) -> None:
        """Note that the broker is gone: another one may have no streams."""
        self.owner.looked = False
        await self.requests.on_lost()

    def _may_send(self) -> bool:
        return self.nc.is_connected and self.nc.pending_data_size <= UNSENT_BYTES_MAX

    def _may_look(self) -> bool:
        return self._leads() and self.nc.is_connected

    async def _look(self) -> None:
        await self.owner.look()
        now_ns = time.time_ns()
        for kind, figures in self.owner.figures.items():
            self._history.note(kind, figures, now_ns)
        if self.owner.problems != self._said:
            self._said = dict(self.owner.problems)
            for kind, why in self._said.items():
                _log.warning("telemetry is not kept", kind=kind, why=why)

    # --- requests of users ------------------------------------------------------------------------

    async def answer(self, caller: Caller) -> bytes:
        """Return the reply to a request about telemetry; a StokerError is the refusal."""
        if isinstance(caller.request, schema_telemetry.TelemetryReadRequest):
            return await self._read(caller.request, caller.scope)
        return schema.encode(await self._list())

    async def _list(self) -> schema_telemetry.TelemetryList:
        rows = [await self._stream_view(stream) for stream in STREAMS]
        return schema_telemetry.TelemetryList(streams=tuple(rows), dropped=self._batches.dropped)

    async def _stream_view(self, stream: TelemetryStream) -> schema_telemetry.TelemetryStreamView:
        view = schema_telemetry.TelemetryStreamView(
            kind=stream.kind,  # type: ignore[arg-type]  # a test compares the two lists
            subject=stream.subject,
            stream=stream.name,
            max_bytes=STREAM_BYTES,
            max_age_s=STREAM_AGE_S,
        )
        try:
            now = await self.owner.figures_now(stream)
        except StokerError as error:
            why = self.owner.problems.get(stream.kind, error.message)
            return msgspec.structs.replace(view, why=why)
        self._history.note(stream.kind, now, time.time_ns())
        return msgspec.structs.replace(
            view,
            messages=now.messages,
            bytes=now.bytes,
            oldest_t_ns=nanoseconds(now.first_ts) if now.messages else None,
            discarded=self._history.discarded[stream.kind],
        )

    async def _read(
        self, request: schema_telemetry.TelemetryReadRequest, scope: str | None
    ) -> bytes:
        stream = stream_of(request.kind)
        subject = stream.readable(scope)
        if not 0 < request.limit <= schema_telemetry.MESSAGES_MAX:
            raise BadRequest(f"limit is {request.limit}, from 1 to {schema_telemetry.MESSAGES_MAX}")
        if not 0 <= request.since_s <= 10 * STREAM_AGE_S:
            raise BadRequest(f"since_s is {request.since_s:g}, from 0 to {10 * STREAM_AGE_S}")
        observed = request.kind == "observations"
        most = READ_OBSERVATIONS_MAX if observed else READ_BYTES_MAX
        gap = False
        if request.after is None:
            since_ns = time.time_ns() - int(request.since_s * NS)
            found, more = await self._reader.since(stream, subject, since_ns, request.limit, most)
        else:
            cursor = Cursor(request.after, request.after_t_ns)
            found, more, gap = await self._reader.after(
                stream, subject, cursor, request.limit, most
            )
        return _view(request, found, more=more, gap=gap)


def _view(
    request: schema_telemetry.TelemetryReadRequest,
    found: list[KeptMessage],
    *,
    more: bool,
    gap: bool,
) -> bytes:
    """Return as many messages as fit into a reply."""
    messages: list[schema_telemetry.TelemetryMessage] = []
    size = 0
    for kept in found:
        data = _published(request.kind, kept)
        size += len(data) + 256
        if messages and size > schema.REPLY_BYTES_MAX:
            more = True
            break
        messages.append(
            schema_telemetry.TelemetryMessage(
                seq=kept.seq, t_ns=kept.t_ns, subject=kept.subject, data=msgspec.Raw(data)
            )
        )
    view = schema_telemetry.TelemetryView(
        kind=request.kind, messages=tuple(messages), more=more, gap=gap
    )
    return schema.encode(view)


def _published(kind: str, kept: KeptMessage) -> bytes:
    """Return a message as JSON. A message that is none is shown as what is wrong with it, since an
    agent publishes it and the broker checks its subject alone."""
    try:
        if kind == "observations":
            node = subjects.parse_observation(kept.subject)
            return _named(node_messages.observation(kept.data, node))
        msgspec.json.decode(kept.data)
    except (StokerError, msgspec.MsgspecError, RecursionError) as error:
        return msgspec.json.encode({"unreadable": str(error)[:200]})
    return kept.data


def _named(sample: Observation) -> bytes:
    """Return an observation as JSON with names, which it has not on the wire."""
    whole = {name: getattr(sample, name) for name in sample.__struct_fields__}
    for part in ("devices", "jobs", "gangs", "verdicts"):
        whole[part] = [_parts(row) for row in whole[part]]
    for gang in whole["gangs"]:
        gang["troubles"] = [_parts(row) for row in gang["troubles"]]
        gang["communicators"] = [_parts(row) for row in gang["communicators"]]
        for row in gang["communicators"]:
            row["members"] = [_parts(member) for member in row["members"]]
    return msgspec.json.encode(whole)


def _parts(row: Record) -> dict[str, Any]:
    """Return the fields of a record by their names."""
    return {name: getattr(row, name) for name in row.__struct_fields__}
