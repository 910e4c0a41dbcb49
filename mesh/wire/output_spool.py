# SPDX-License-Identifier: Apache-2.0
"""The stream that keeps the output of jobs which asked for it: its settings, pieces and words.

Its size and age are the operator's (`SpoolBounds`); no other file spells another bound. The option
of a job is a variable of its environment, which the log has had from the start: no entry, decision
or snapshot changes its form by it. Programs do not see that variable. Owns the words that a reader
is told about the end of spooled output.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import msgspec

from stoker.mesh.wire import subjects
from stoker.mesh.wire.stream_place import StreamPlace
from stoker.scheduler.job_options import LIMITS

VARIABLE: Final = "STOKER_SPOOL_OUTPUT"
"""The variable of a job's environment with the bytes of each stream that are spooled."""
STREAM: Final = "OUTPUT_SPOOL"
PIECE_BYTES: Final = 64 * 1024
"""The most bytes of output in one piece."""
MESSAGE_BYTES: Final = PIECE_BYTES + 256
"""The largest message, which is a piece with its head."""
PIECES_MAX: Final = 16_384
"""The most pieces of one stream of one attempt of a task."""
_OPTION: Final = next(each for each in LIMITS if each.option == "spool_output_bytes")


class OutputPiece(msgspec.Struct, array_like=True, frozen=True):
    """A piece of one stream of one attempt, as its node has read it."""

    offset: int
    data: bytes
    t_ns: int
    """The time at which the file was read (CLOCK_REALTIME)."""
    size: int
    """The bytes that the file had then."""
    limit: int
    """The bytes that are spooled of this stream."""
    over: bool = False
    """True in the last piece: the attempt is over, and nothing follows."""
    dropped: int = 0
    """The bytes of both streams beyond the job's limit of output, known with `over` alone."""

    @property
    def end(self) -> int:
        """The offset behind its data, up to which everything was spooled before."""
        return self.offset + len(self.data)


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(OutputPiece).decode


class SpoolConfig(msgspec.Struct, kw_only=True, frozen=True):
    """The settings of the stream, as JetStream names them. Readers make no consumer."""

    name: str = STREAM
    subjects: tuple[str, ...] = (subjects.EVERY_SPOOLED_OUTPUT,)
    retention: str = "limits"
    storage: str = "file"
    num_replicas: int = 1
    discard: str = "old"
    max_bytes: int
    max_age: int
    """Nanoseconds."""
    max_msgs: int = -1
    max_msgs_per_subject: int = PIECES_MAX
    max_msg_size: int = MESSAGE_BYTES
    max_consumers: int = 1
    allow_direct: bool = True
    deny_delete: bool = True
    deny_purge: bool = True
    placement: StreamPlace | None = None


def bytes_of(env: Mapping[str, str]) -> int:
    """Return the bytes of each stream that a job has spooled; 0 for one that has not asked.

    A value that no option sets is none, since users may send any environment.
    """
    text = env.get(VARIABLE, "")
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_OPTION.most)):
        return 0
    return int(text) if _OPTION.least <= int(text) <= _OPTION.most else 0


def whole(last: OutputPiece) -> bool:
    """Return True if the spool has all that the attempt wrote to the stream."""
    return last.over and last.end >= last.size and not last.dropped


def words(last: OutputPiece, stream: str) -> str:
    """Return up to where a spooled stream is whole, and what may be missing, after its last
    piece."""
    name = {"out": "stdout", "err": "stderr"}[stream]
    if whole(last):
        return f"all {last.end:,} bytes of {name} were spooled"
    first = f"the first {last.end:,} bytes of {name} were spooled"
    beyond = last.size - last.end
    if beyond and last.end >= last.limit:
        more = "" if last.over else "at least "
        return f"{first}, the limit of its --spool-output; {more}{beyond:,} bytes more are lost"
    if last.over and beyond:
        return f"{first}; the last {beyond:,} bytes are lost"
    if last.over:
        return f"{first}; its limit of output dropped {last.dropped:,} bytes"
    read = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(last.t_ns // 1_000_000_000))
    return f"{first}, the last of them at {read}; what it wrote after that may be missing"
