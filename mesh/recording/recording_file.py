# SPDX-License-Identifier: Apache-2.0
"""Reads a recording: what it holds, and the rows of every part at any of its moments.

`stoker replay` and `top --replay` stand on it. Owns that a moment has one answer: its rows are
those of the key block before it with all later changes up to it, however one came there.
"""

from __future__ import annotations

import bisect
import stat
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from stoker.mesh.client.kept_telemetry import Told
from stoker.mesh.recording import blocks
from stoker.mesh.recording.blocks import Block, Damage, Recorded
from stoker.mesh.recording.sampler import OF_ARRAYS, WINDOWED
from stoker.native.errors import Corrupt, Denied, NotFound, Refused

FILE_BYTES_MAX: Final = 4 << 30
"""The largest file that is read."""
UNPACKED_KEPT: Final = 8
"""The most unpacked blocks that are kept, for the next seek."""
TOLD_MAX: Final = 200_000
"""The most rows of events, and of summaries, of one recording; more are refused."""
SILENCE_NS: Final = 15_000_000_000
"""Longer without any moment is a gap, whoever recorded: a recorder writes more often."""
STOPPED = "nothing was recorded: the node was down, or its recorder did not run"

State = Mapping[str, Mapping[str, bytes]]


class Gap(msgspec.Struct, frozen=True):
    """A stretch of time of which a recording knows nothing, or not all, and why."""

    from_ns: int
    to_ns: int
    why: str


class RecordedBy(msgspec.Struct, frozen=True):
    """The maker of a recording: part `about`, in every key block."""

    version: str = ""
    user: str = ""
    interval_s: float = 1.0
    source: str = ""
    """`ring`, or `bus` for one that `stoker record` made of the answers on the bus."""
    redacted: bool = False


class ReadingsSpan(NamedTuple):
    """The newest readings of a device, and its points of a stretch of time."""

    view: bytes
    points: Mapping[str, tuple[tuple[int, float], ...]]


class RecordingFile:
    """One recording, whole in memory as it is stored and unpacked block by block."""

    def __init__(self, data: bytes, name: str) -> None:
        """Raises Corrupt or NotSupported with the name of the file if there is nothing to read."""
        self.name, self._data = name, memoryview(data)
        found = list(blocks.scan(self._data, blocks.check_header(data, name)))
        self.blocks = tuple(each for each in found if isinstance(each, Block))
        self.damages = tuple(each for each in found if isinstance(each, Damage))
        while self.blocks and not self.blocks[0].key:  # nothing says what it builds on
            self.blocks = self.blocks[1:]
        if not self.blocks:
            why = self.damages[0].why if self.damages else "it holds no moment"
            raise Corrupt(f"{name} cannot be replayed: {why}", hint="record again")
        self._unpacked: OrderedDict[int, list[Recorded]] = OrderedDict()
        self.events: tuple[Told, ...] = ()
        self.summaries: tuple[Told, ...] = ()
        self.gaps: tuple[Gap, ...] = ()
        self.nodes: tuple[str, ...] = ()
        self.devices: tuple[str, ...] = ()
        self.jobs: tuple[str, ...] = ()
        self.about = RecordedBy()
        self._look_through()

    @classmethod
    def open(cls, path: Path) -> RecordingFile:
        """Read a file; NotFound, Denied, Refused, Corrupt or NotSupported names it."""
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
                raise Refused(f"{path} is a pipe or a device, and recordings are read from files")
            size = found.st_size
            if size > FILE_BYTES_MAX:
                raise Refused(f"{path} has {size} bytes, and at most {FILE_BYTES_MAX} are replayed")
            return cls(path.read_bytes(), str(path))
        except FileNotFoundError:
            raise NotFound(f"there is no file {path}") from None
        except IsADirectoryError:
            raise NotFound(f"{path} is a folder, not a recording") from None
        except PermissionError:
            raise Denied(f"{path} cannot be read by this user") from None

    @property
    def first_ns(self) -> int:
        """The time at which the recording begins; a gap may stand there."""
        return min([self.blocks[0].first_ns, *(gap.from_ns for gap in self.gaps[:1])])

    @property
    def last_ns(self) -> int:
        """The time of the last moment."""
        return max(block.last_ns for block in self.blocks)

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return len(self._data)

    # --- a moment --------------------------------------------------------------------------------

    def state(self, t_ns: int) -> State:
        """Return the rows of every part at a moment; before the first one, as at the first one."""
        t_ns = max(t_ns, self.blocks[0].first_ns)
        rows: dict[str, dict[str, bytes]] = {}
        for each in self._changes(self._key_before(t_ns), t_ns):
            if each.part not in WINDOWED:
                _lay(rows, each)
        return rows

    def readings(self, device: str, from_ns: int, to_ns: int) -> ReadingsSpan | None:
        """Return the newest readings of a device by `to_ns`, and its points since `from_ns`."""
        newest: bytes | None = None
        points: dict[str, dict[int, float]] = {}
        for each in self._changes(self._key_before(from_ns), to_ns):
            row = each.rows.get(device) if each.part == "readings" else None
            if row is None:
                continue
            newest = row
            for field, told in msgspec.json.decode(row).get("history", {}).items():
                points.setdefault(field, {}).update((at, value) for at, value in told)
        if newest is None:
            return None
        spans = {
            field: tuple(sorted((at, v) for at, v in told.items() if from_ns < at <= to_ns))
            for field, told in points.items()
        }
        return ReadingsSpan(newest, spans)

    def gap_at(self, t_ns: int) -> Gap | None:
        """Return the gap that a moment lies in."""
        return next((gap for gap in self.gaps if gap.from_ns < t_ns < gap.to_ns), None)

    def _key_before(self, t_ns: int) -> int:
        """Return the last key block that begins by this time, or else the first block."""
        found = 0
        for at, block in enumerate(self.blocks):
            if block.first_ns > t_ns:
                break
            found = at if block.key else found
        return found

    def _changes(self, first: int, to_ns: int) -> Iterator[Recorded]:
        for block in self.blocks[first:]:
            if block.first_ns > to_ns:
                return
            for each in self.moments(block):
                if each.t_ns <= to_ns:
                    yield each

    def moments(self, block: Block) -> Sequence[Recorded]:
        """Return the changes of one block; Corrupt with the place if they cannot be read."""
        found = self._unpacked.get(block.offset)
        if found is None:
            data = bytes(self._data[block.offset : block.offset + block.size])
            try:
                found = blocks.decode(data)
            except Corrupt as error:
                raise Corrupt(f"{self.name}, byte {block.offset}: {error.message}") from None
            self._unpacked[block.offset] = found
            if len(self._unpacked) > UNPACKED_KEPT:
                self._unpacked.popitem(last=False)
        self._unpacked.move_to_end(block.offset)
        return found

    # --- the whole -------------------------------------------------------------------------------

    def _look_through(self) -> None:
        """Read every block once: what happened, which nodes, devices and jobs there were, gaps."""
        told: dict[str, list[Told]] = {"events": [], "summaries": []}
        names: dict[str, dict[str, None]] = {"nodes": {}, "devices": {}, "jobs": {}}
        names[OF_ARRAYS] = names["jobs"]
        gaps: list[Gap] = []
        for each in self._every():
            if each.part in told:
                told[each.part] += (_told(row, self.name) for row in each.rows.values() if row)
                if len(told[each.part]) > TOLD_MAX:
                    raise Refused(f"{self.name} has more than {TOLD_MAX} rows of {each.part}")
            elif each.part in names:
                names[each.part].update(dict.fromkeys(each.rows))
            elif each.part == "gap":
                gaps += (_decoded(row, Gap, self.name) for row in each.rows.values() if row)
            elif each.part == "about":
                row = each.rows.get("")
                self.about = _decoded(row, RecordedBy, self.name) if row else self.about
        self.events, self.summaries = (_ordered(told[part]) for part in told)
        self.nodes, self.devices = (tuple(names[part]) for part in ("nodes", "devices"))
        self.jobs = tuple(sorted(names["jobs"], key=lambda job: (len(job), job)))
        self.gaps = _merged([*gaps, *self._silences()])

    def _every(self) -> Iterator[Recorded]:
        for block in self.blocks:
            yield from self.moments(block)

    def _silences(self) -> Iterator[Gap]:
        """Yield the stretches between two blocks of which nothing is left or was recorded."""
        for before, after in zip(self.blocks, self.blocks[1:], strict=False):
            damaged = any(before.offset < each.offset < after.offset for each in self.damages)
            if damaged:
                yield Gap(before.last_ns, after.first_ns, "what was recorded is damaged")
            elif after.first_ns - before.last_ns > SILENCE_NS:
                yield Gap(before.last_ns, after.first_ns, STOPPED)


def told_until(told: Sequence[Told], t_ns: int, span_ns: int) -> tuple[Told, ...]:
    """Return what had been told by a moment, and not longer before it than `span_ns`."""
    first = bisect.bisect_left(told, t_ns - span_ns, key=lambda each: each.t_ns)
    last = bisect.bisect_right(told, t_ns, key=lambda each: each.t_ns)
    return tuple(told[first:last])


def _lay(rows: dict[str, dict[str, bytes]], each: Recorded) -> None:
    part = rows.setdefault(each.part, {})
    if each.whole:
        part.clear()
    for key, row in each.rows.items():
        if row is None:
            part.pop(key, None)
        else:
            part[key] = row


def _ordered(told: list[Told]) -> tuple[Told, ...]:
    """Return rows by time, each once: two recorders of one stream may have told the same."""
    known: dict[bytes, Told] = {}
    for each in told:
        known.setdefault(msgspec.json.encode(each, order="deterministic"), each)
    return tuple(sorted(known.values(), key=lambda each: each.t_ns))


def _merged(gaps: list[Gap]) -> tuple[Gap, ...]:
    """Return gaps by time; one that lies within another is left out."""
    made: list[Gap] = []
    for gap in sorted(gaps, key=lambda each: (each.from_ns, -each.to_ns)):
        if gap.to_ns > gap.from_ns and not (made and gap.to_ns <= made[-1].to_ns):
            made.append(gap)
    return tuple(made)


def _told(row: bytes, name: str) -> Told:
    told: Told = _decoded(row, Told, name)
    return told


def _decoded(row: bytes, kind: Any, name: str) -> Any:
    try:
        return msgspec.json.decode(row, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Corrupt(f"{name} holds a row that is not what stoker wrote: {error}") from None
