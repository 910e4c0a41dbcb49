# SPDX-License-Identifier: Apache-2.0
"""The replicated log as four calls over a JetStream stream: append_at, read_from, trim, seal.

Owns the translation of every answer of JetStream into: done, WrongTail, LogFull, Denied or
OutcomeUnknown. The replica that reads checks order, gaps and chain itself and trusts no answer of
JetStream about them.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Protocol

import msgspec
import nats.errors

from stoker.mesh.broker.broker_config import LOG_ENTRY_BYTES_MAX, LOG_MAX_BYTES
from stoker.mesh.connection.requests import Requests
from stoker.mesh.log.stream_inbox import COPY, NobodyReads, SilentLog, StreamInbox
from stoker.mesh.wire import subjects
from stoker.mesh.wire.schema_cluster import LogCopy, LogView
from stoker.mesh.wire.stream_place import StreamPlace, on_broker
from stoker.native.errors import Corrupt, Denied, Refused, StokerError, Unavailable

APPEND_TIMEOUT_S = 2.0
API_TIMEOUT_S = 5.0
INFO_TIMEOUT_S = 2.0
"""Brokers that elect answer nothing, so a request that changes nothing is soon made again."""
COPY_S = (0.25, 0.5, 1.0, 1.0, 1.0)
"""The patience with each broker that is asked for entries of its copy. A host that has just died
is asked as well, as long as its routes are not given up, and each time costs the next leader as
much; a busy one that is slow gets more time."""
DUPLICATE_WINDOW_NS = 300 * 10**9
INACTIVE_NS = 30 * 10**9

_WRONG_LAST_SEQUENCE = 10071
_STORE_FAILED = 10077
_NO_RESOURCES = (10002, 10023, 10028, 10047)
"""Error codes of account and server limits, which are checked before anything is stored
(nats-server errors.json)."""
_STREAM_NOT_FOUND = 10059
_NO_COPIES = 10074
"""The answer of a broker that is no member of a cluster to a stream with several copies."""
_STREAM_SEALED = 10109


class WrongTail(StokerError):
    """Another entry was appended first: read forward, then decide again.

    `last` is the last entry that JetStream names, 0 if it names none.
    """

    title, code = "log moved on", "wrong_tail"

    def __init__(self, message: str, *, hint: str = "", last: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.last = last


class OutcomeUnknown(StokerError):
    """The entry may or may not be in the log; append nothing before reading forward."""

    title, code = "outcome unknown", "outcome_unknown"


class LogFull(Refused):
    """The log takes no more bytes; nothing was appended."""

    title, code = "log full", "refused"


class LogGap(Corrupt):
    """The log does not hold an entry that it must hold."""

    title = "gap in the log"


class StreamGone(LogGap):
    """The log's stream, which existed, is gone."""

    title = "log vanished"


class Log(Protocol):
    """A log as the daemon uses it. Sequences start at 1 and are never reused."""

    async def append_at(self, tail: int, entry: bytes, name: str) -> int:
        """Append as `tail + 1` and return that.

        Raises WrongTail, LogFull, OutcomeUnknown, Denied or LogGap.
        """

    def read_from(self, seq: int) -> AsyncIterator[list[tuple[int, bytes]]]:
        """Yield batches of (sequence, entry) from `seq` to the present end of the log.

        Entries that JetStream cannot read are left out; the chain of entries shows a gap.
        """

    async def trim(self, seq: int) -> None:
        """Drop all entries up to and including `seq`."""

    async def seal(self) -> None:
        """Refuse all further entries, before a move to another engine."""


class StreamConfig(msgspec.Struct, kw_only=True):
    """The settings of the stream, as JetStream names them."""

    name: str = subjects.LOG_STREAM
    subjects: tuple[str, ...] = (subjects.LOG,)
    retention: str = "limits"
    storage: str = "file"
    num_replicas: int = 1
    discard: str = "new"
    max_bytes: int = LOG_MAX_BYTES
    max_age: int = 0
    max_msgs: int = -1
    max_consumers: int = 16
    max_msg_size: int = LOG_ENTRY_BYTES_MAX
    duplicate_window: int = DUPLICATE_WINDOW_NS
    deny_delete: bool = True
    deny_purge: bool = False
    allow_rollup_hdrs: bool = False
    allow_direct: bool = False
    mirror_direct: bool = False
    compression: str = "none"
    sealed: bool = False
    placement: StreamPlace | None = None
    metadata: dict[str, str] = {}


class _ApiError(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _State(msgspec.Struct):
    bytes: int = 0
    last_seq: int = 0


class _Config(msgspec.Struct):
    max_bytes: int = 0
    num_replicas: int = 1
    allow_direct: bool = False
    metadata: dict[str, str] = {}


class _Peer(msgspec.Struct):
    name: str
    current: bool = False
    offline: bool = False
    lag: int = 0


class _Group(msgspec.Struct):
    leader: str = ""
    replicas: tuple[_Peer, ...] = ()


class _Answer(msgspec.Struct):
    """The fields of the JetStream API's answers that are used here."""

    error: _ApiError | None = None
    seq: int = 0
    stream: str = ""
    state: _State | None = None
    config: _Config | None = None
    cluster: _Group | None = None


_answers = msgspec.json.Decoder(_Answer)


class JetStreamLog:
    """The log on a connection of its own; the connection's callbacks must call `requests`.

    `reader` names the consumers of this process, so that schedulers of one stream differ. A new
    stream gets `copies` copies, if its broker has others beside it. If there are several, any of
    them is read directly; one alone is read through consumers.
    """

    def __init__(
        self,
        requests: Requests,
        cluster: str,
        max_bytes: int = LOG_MAX_BYTES,
        reader: str = "read",
        copies: int = 1,
    ) -> None:
        self.copies = copies
        """The copies that the stream has, once it is open."""
        self.last = 0
        """The last entry of the stream when it was opened."""
        self.place = ""
        """The broker that has the one copy of a stream which others shall have, too."""
        self._reads_copy = copies > 1
        self._reader = reader
        self._requests = requests
        self._nc = requests.connection
        self._cluster = cluster
        self._max_bytes = max_bytes
        self._readers = 0

    async def open(self, *, may_make: bool, place: str = "") -> int:
        """Open the stream of this cluster and return how many bytes it holds.

        A missing stream is made if `may_make`, else StreamGone is raised; Corrupt if it belongs to
        another cluster, Unavailable if JetStream refuses. A stream that exists keeps its copies.
        `place`: the broker whose files have the stream, which the others beside it do not know yet:
        it is made with one copy there.
        """
        self.place = place
        answer = await self._info()
        if answer.error is not None and answer.error.err_code == _STREAM_NOT_FOUND:
            if not may_make:
                raise StreamGone("the log's stream is gone")
            answer = await self._make()
        elif answer.config is not None and answer.config.max_bytes != self._max_bytes:
            self._check_cluster(answer)
            self._take_over(answer.config)
            answer = await self._configure("UPDATE")
        if answer.error is not None:
            raise Unavailable(f"the log's stream: {answer.error.description}")
        self._check_cluster(answer)
        self._take_over(answer.config or _Config())
        state = answer.state or _State()
        self.last = state.last_seq
        return state.bytes

    async def _make(self) -> _Answer:
        """Make the stream with all its copies; a broker without others bears only one."""
        if self.place:
            self._take_over(_Config(allow_direct=True))
            return await self._configure("CREATE", at=self.place)
        answer = await self._configure("CREATE")
        if answer.error is not None and answer.error.err_code == _NO_COPIES:
            self._take_over(_Config())
            answer = await self._configure("CREATE")
        return answer

    def _take_over(self, config: _Config) -> None:
        self.copies, self._reads_copy = config.num_replicas, config.allow_direct

    def _check_cluster(self, answer: _Answer) -> None:
        found = answer.config.metadata.get("cluster") if answer.config is not None else None
        if found != self._cluster:
            raise Corrupt(f"the log belongs to cluster {found}, this is {self._cluster}")

    async def size(self) -> int:
        """Return the bytes that the stream holds now, for metering only."""
        answer = await self._info()
        return answer.state.bytes if answer.state is not None else 0

    async def keepers(self) -> LogView:
        """Return the brokers that keep the log, as JetStream tells of them, for people to see."""
        group = (await self._info()).cluster or _Group()
        others = (
            LogCopy(server=each.name, current=each.current and not each.offline, behind=each.lag)
            for each in group.replicas
        )
        own = [LogCopy(server=group.leader, current=True)] if group.leader else []
        copies = sorted((*own, *others), key=lambda copy: copy.server)
        return LogView(leader=group.leader, copies=tuple(copies))

    async def keep(self, copies: int) -> None:
        """Have the log kept by this many brokers; the new ones get what it has."""
        before, self.copies = self.copies, copies
        answer = await self._configure("UPDATE")
        if answer.error is not None:
            self.copies = before
            raise Unavailable(f"{copies} copies of the log: {answer.error.description}")

    async def hand_on(self) -> None:
        """Have another broker lead the stream; appends of this moment may end as unknown."""
        answer = await self._api(f"STREAM.LEADER.STEPDOWN.{subjects.LOG_STREAM}", b"")
        if answer.error is not None:
            raise Unavailable(f"another leader of the log: {answer.error.description}")

    async def append_at(self, tail: int, entry: bytes, name: str) -> int:
        headers = {
            "Nats-Expected-Stream": subjects.LOG_STREAM,
            "Nats-Expected-Last-Sequence": str(tail),
            "Nats-Msg-Id": name,
        }
        try:
            answer = await self._requests.request(subjects.LOG, entry, APPEND_TIMEOUT_S, headers)
        except Unavailable as error:
            raise OutcomeUnknown(f"append at {tail}: {error.message}") from None
        return appended(tail, answer)

    async def trim(self, seq: int) -> None:
        body = msgspec.json.encode({"seq": seq + 1})
        answer = await self._api(f"STREAM.PURGE.{subjects.LOG_STREAM}", body)
        if answer.error is not None:
            raise Unavailable(f"trim to {seq}: {answer.error.description}")

    async def seal(self) -> None:
        answer = await self._configure("UPDATE", sealed=True)
        if answer.error is not None:
            raise Unavailable(f"seal: {answer.error.description}")

    def read_from(self, seq: int) -> AsyncIterator[list[tuple[int, bytes]]]:
        return self._read_copy(seq) if self._reads_copy else self._consume(seq)

    async def _read_copy(self, seq: int) -> AsyncIterator[list[tuple[int, bytes]]]:
        """Read the copy of any broker, which takes no leader of the stream and may be behind it."""
        while batch := await self._fetch_copy(max(seq, 1)):
            yield batch
            seq = batch[-1][0] + 1

    async def _fetch_copy(self, seq: int) -> list[tuple[int, bytes]]:
        """Fetch one batch, and ask again if a broker hangs, for then another one may answer."""
        for patience_s in COPY_S:
            inbox = StreamInbox(self._nc, COPY, patience_s)
            try:
                return await inbox.fetch({"seq": seq, "next_by_subj": subjects.LOG})
            except SilentLog:
                continue
            except NobodyReads:
                _check_there(await self._info())
                raise
            finally:
                await inbox.close()
        raise SilentLog(f"reading the log: {len(COPY_S)} requests were not answered")

    async def _consume(self, seq: int) -> AsyncIterator[list[tuple[int, bytes]]]:
        """Read through a consumer."""
        name = await self._consumer(seq)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{subjects.LOG_STREAM}.{name}"
        inbox = StreamInbox(self._nc, subject)
        try:
            while batch := await inbox.fetch({"no_wait": True}):
                yield batch
        finally:
            await inbox.close()
            # Without a connection, the consumer ends by its inactivity limit.
            if self._nc.is_connected:
                with contextlib.suppress(StokerError, nats.errors.Error):
                    await self._api(f"CONSUMER.DELETE.{subjects.LOG_STREAM}.{name}", b"")

    async def _consumer(self, seq: int) -> str:
        """Make a consumer for one pass and return its name.

        The name is chosen here, so that the consumer can be deleted if the answer is lost.
        """
        self._readers += 1
        name = f"{self._reader}-{self._readers}"
        await self._api(f"CONSUMER.DELETE.{subjects.LOG_STREAM}.{name}", b"")
        config = {
            "name": name,
            "ack_policy": "none",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(seq, 1),
            "num_replicas": 1,
            "mem_storage": True,
            "inactive_threshold": INACTIVE_NS,
            "replay_policy": "instant",
        }
        body = msgspec.json.encode({"stream_name": subjects.LOG_STREAM, "config": config})
        answer = await self._api(f"CONSUMER.CREATE.{subjects.LOG_STREAM}.{name}", body)
        _check_there(answer)
        if answer.error is not None:
            raise Unavailable(f"reading the log: {answer.error.description}")
        return name

    async def _configure(self, call: str, *, sealed: bool = False, at: str = "") -> _Answer:
        config = StreamConfig(
            num_replicas=self.copies,
            allow_direct=self._reads_copy,
            max_bytes=self._max_bytes,
            sealed=sealed,
            deny_purge=sealed,
            placement=on_broker(at),
            metadata={"cluster": self._cluster, "format": "1"},
        )
        body = msgspec.json.encode(config)
        return await self._api(f"STREAM.{call}.{subjects.LOG_STREAM}", body)

    async def _info(self) -> _Answer:
        return await self._api(f"STREAM.INFO.{subjects.LOG_STREAM}", b"", INFO_TIMEOUT_S)

    async def _api(self, call: str, body: bytes, timeout_s: float = API_TIMEOUT_S) -> _Answer:
        data = await self._requests.request(f"$JS.API.{call}", body, timeout_s)
        try:
            return _answers.decode(data)
        except msgspec.MsgspecError as error:
            raise Unavailable(f"the log engine's answer to {call}: {error}") from None


def _check_there(answer: _Answer) -> None:
    if answer.error is not None and answer.error.err_code == _STREAM_NOT_FOUND:
        raise StreamGone("the log's stream is gone")


def appended(tail: int, data: bytes) -> int:
    """Return the sequence that this answer to an append at `tail` confirms; raise as
    `append_at`."""
    try:
        answer = _answers.decode(data)
    except msgspec.MsgspecError:
        raise OutcomeUnknown(f"append at {tail}: unreadable answer {data[:80]!r}") from None
    if answer.error is None and answer.seq == tail + 1:
        return answer.seq
    if answer.error is None:
        raise OutcomeUnknown(f"append at {tail} was answered as {answer.seq}")
    number, text = answer.error.err_code, answer.error.description
    if number == _WRONG_LAST_SEQUENCE:
        last = text.rpartition(" ")[2]
        if last.isdecimal() and int(last) < tail:
            raise LogGap(f"the log ends at entry {last}, though it confirmed entry {tail}")
        raise WrongTail(f"append at {tail}: {text}", last=int(last) if last.isdecimal() else 0)
    if number in _NO_RESOURCES or (number == _STORE_FAILED and "maximum bytes" in text):
        raise LogFull(f"append at {tail}: {text}")
    if number == _STREAM_SEALED:
        raise Denied("the log is sealed: it has moved to another engine")
    raise OutcomeUnknown(f"append at {tail}: {text} ({number})")
