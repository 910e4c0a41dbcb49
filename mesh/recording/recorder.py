# SPDX-License-Identifier: Apache-2.0
"""Records samples into blocks: a node's recorder into its ring, `stoker record --for` into a file.

Owns that a reader finds all rows at least once a minute, and that a recorder which dies costs
FLUSH_NS of time at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from stoker.mesh.recording import blocks
from stoker.mesh.recording.blocks import Recorded
from stoker.mesh.recording.recording_file import RecordedBy
from stoker.mesh.recording.ring_files import SEGMENT_NS
from stoker.mesh.recording.sampler import WINDOWED, ClusterSampler

FLUSH_NS: Final = 5_000_000_000
"""The longest time for which what was sampled waits to be written."""


class BlockSink(Protocol):
    """The goal of blocks; `ring_files.RecordingRing` is one."""

    def wants_key(self, now_ns: int) -> bool:
        """Return True if the next block must be a key block."""

    def append(self, recorded: Sequence[Recorded], *, key: bool, now_ns: int) -> bool:
        """Take one block; False if it was lost."""


class FileBlocks:
    """The blocks of one recording on their way into a file."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._key_ns = 0
        write(blocks.HEADER)

    def wants_key(self, now_ns: int) -> bool:
        """Return True at the begin, and after each minute."""
        return not 0 <= now_ns - self._key_ns < SEGMENT_NS

    def append(self, recorded: Sequence[Recorded], *, key: bool, now_ns: int) -> bool:
        """Add one block; OSError if the disk does not take it."""
        self._key_ns = now_ns if key else self._key_ns
        self._write(blocks.encode(recorded, key=key))
        return True


class Recorder:
    """One recording in the making."""

    def __init__(
        self, sampler: ClusterSampler, sink: BlockSink, about: RecordedBy,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        self._sampler, self._sink, self._now_ns = sampler, sink, now_ns
        self._about = msgspec.json.encode(about)
        self._waits: list[Recorded] = []
        self._flushed_ns = 0

    async def step(self) -> None:
        """Take one sample, and write what is due."""
        self._waits += await self._sampler.sample()
        now_ns = self._now_ns()
        if self._waits and self._sink.wants_key(now_ns):
            self._write_key(now_ns)
        elif not 0 <= now_ns - self._flushed_ns < FLUSH_NS:
            self._write(now_ns)

    def flush(self) -> None:
        """Write what waits, with the gap that is open."""
        self._waits += self._sampler.gap()
        now_ns = self._now_ns()
        if self._waits and self._sink.wants_key(now_ns):
            self._write_key(now_ns)
        else:
            self._write(now_ns)

    def _write_key(self, now_ns: int) -> None:
        """Write all rows. The changes that wait are in them, but for what tells of a moment."""
        whole = self._sampler.whole()
        t_ns = whole[0].t_ns if whole else self._waits[-1].t_ns
        about = Recorded(t_ns, "about", {"": self._about})
        told = [msgspec.structs.replace(w, t_ns=t_ns) for w in self._waits if w.part in WINDOWED]
        earlier = [each for each in self._waits if each.t_ns < t_ns and each.part not in WINDOWED]
        if earlier:  # they belong to the segment before
            self._sink.append(earlier, key=False, now_ns=now_ns)
        self._waits = [about, *whole, *told]
        self._write(now_ns, key=True)

    def _write(self, now_ns: int, *, key: bool = False) -> None:
        waits, self._waits, self._flushed_ns = self._waits, [], now_ns
        if waits:
            self._sink.append(waits, key=key, now_ns=now_ns)
