# SPDX-License-Identifier: Apache-2.0
"""Records of starts: what the agent needs after its own restart and the spawner does not have.

The records of a batch are written before the spawner gets it, so no attempt runs without a record.
A torn last record belongs to a batch that the spawner never got. The file is rewritten with the
living attempts at every start of the agent and when it grows past FILE_BYTES_MAX.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

import msgspec

from stoker.agent.state.append_file import AppendFile
from stoker.scheduler.nouns import StartJob, TaskKey, TaskRecord, TraceMode

FILE_BYTES_MAX = 4 << 20
_LENGTH = struct.Struct("<I")
_RECORD_BYTES_MAX = 64 * 1024


class StartRecord(TaskRecord, frozen=True):
    """One start. `devices`: ids granted; `trace` is "off" if no tracer was offered."""

    decision: int
    uid: int
    grace_s: float
    trace: TraceMode = "off"
    gpu_milli: int = 0
    devices: tuple[str, ...] = ()
    name: str = ""
    aside: tuple[tuple[str, str], ...] = ()
    """Tracers that were not offered although the job has a device for them, and why."""
    user: str = ""
    """The Unix user as whom the job runs."""
    output_bytes_max: int = 0
    """Bytes of output that the attempt may write."""
    rank_trouble: str = "warn"
    """The rule for a rank of it that keeps the others waiting."""
    rank_patience_s: int = 60
    queue: str = ""
    """The queue of the job; empty: the default queue."""
    followed_first: bool = False
    """True if it runs as soon as the tracer follows its threads, and not before."""


UNKNOWN_GRACE_S = 5.0


def start_record(
    start: StartJob,
    devices: tuple[str, ...],
    traced: bool,
    aside: Mapping[str, str] | None = None,
    output_bytes_max: int = 0,
    *,
    followed_first: bool = False,
) -> StartRecord:
    """Return the record of one start."""
    spec = start.spec
    return StartRecord(
        *start.key,
        start.decision.id,
        start.owner.uid,
        spec.grace_s,
        spec.trace if traced else "off",
        spec.gpu_milli,
        devices,
        spec.name or spec.argv[0].rpartition("/")[2][:64],
        tuple((aside or {}).items()),
        start.owner.user,
        output_bytes_max,
        spec.rank_trouble,
        spec.rank_patience_s,
        spec.queue,
        followed_first,
    )


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(StartRecord)


class StartRecords:
    """The file, and its records of living attempts."""

    def __init__(self, path: Path) -> None:
        self._file = AppendFile(path)
        self._alive: dict[TaskKey, StartRecord] = {}
        self._adopted: set[TaskKey] = set()
        self._promised: Counter[int] = Counter()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the file, then rewrite it without a torn end."""
        starts = cls(path)
        starts._alive = {record.key: record for record in _records(path)}
        starts._adopted = set(starts._alive)
        starts._count()
        return starts

    def _count(self) -> None:
        self._promised.clear()
        for record in self._alive.values():
            self._promised[record.uid] += record.output_bytes_max

    def promised(self, uid: int) -> int:
        """Return the bytes of output that the attempts of one user may write."""
        return self._promised[uid]

    def owners(self) -> dict[TaskKey, int]:
        """Return attempt -> user id of every living attempt."""
        return {key: record.uid for key, record in self._alive.items()}

    def __len__(self) -> int:
        return len(self._alive)

    def get(self, key: TaskKey) -> StartRecord:
        """Return the record of a start; an unknown start gets one without decision or trace."""
        return self._alive.get(key) or StartRecord(*key, 0, 0, UNKNOWN_GRACE_S)

    def living(self, key: TaskKey) -> StartRecord | None:
        """Return the record of a start that is not over; None for any other."""
        return self._alive.get(key)

    def is_adopted(self, key: TaskKey) -> bool:
        """True if an earlier agent made this start, which may have left files of it."""
        return key in self._adopted

    def all(self) -> tuple[StartRecord, ...]:
        """Return the record of every living attempt."""
        return tuple(self._alive.values())

    def holders(self) -> dict[str, frozenset[int]]:
        """Return device -> user ids of the attempts that were granted it."""
        found: dict[str, set[int]] = {}
        for record in list(self._alive.values()):
            for device in record.devices:
                found.setdefault(device, set()).add(record.uid)
        return {device: frozenset(uids) for device, uids in found.items()}

    def on(self, device: str) -> tuple[TaskKey, ...]:
        """Return the attempts that were granted a device."""
        return tuple(key for key, record in list(self._alive.items()) if device in record.devices)

    def add(self, records: Iterable[StartRecord]) -> None:
        """Store a batch in one write; raises OSError if the disk is full."""
        batch = list(records)
        data = b"".join(map(_frame, batch))
        if not self._file.opened or self._file.size + len(data) > FILE_BYTES_MAX:
            self._rewrite()
        self._file.append(data)
        self.drop(record.key for record in batch)
        for record in batch:
            self._alive[record.key] = record
            self._promised[record.uid] += record.output_bytes_max

    def keep(self, keys: Iterable[TaskKey]) -> None:
        """Forget all other starts and rewrite the file."""
        wanted = set(keys)
        self._alive = {key: record for key, record in self._alive.items() if key in wanted}
        self._count()
        self._rewrite()

    def drop(self, keys: Iterable[TaskKey]) -> None:
        """Forget these starts; the file loses them when it is rewritten."""
        for key in keys:
            record = self._alive.pop(key, None)
            self._adopted.discard(key)
            if record is not None:
                self._promised[record.uid] -= record.output_bytes_max

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _rewrite(self) -> None:
        self._file.rewrite(b"".join(map(_frame, self._alive.values())))


def _frame(record: StartRecord) -> bytes:
    body = _encoder.encode(record)
    return _LENGTH.pack(len(body)) + body


def _records(path: Path) -> list[StartRecord]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    records, at = [], 0
    while at + _LENGTH.size <= len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if size > _RECORD_BYTES_MAX or at + size > len(data):
            break
        try:
            records.append(_decoder.decode(data[at : at + size]))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            break
        at += size
    return records
