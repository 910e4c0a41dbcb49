# SPDX-License-Identifier: Apache-2.0
"""Makes recordings: from the ring of this machine's node, or of what the bus tells a user.

Owns which of the two: the ring is the administrator's, who may read its folder. Everybody else
gets what the bus tells them, and a gap where it tells nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from stoker.mesh.client.client import Client
from stoker.mesh.connection import context
from stoker.mesh.recording import blocks, ring_files
from stoker.mesh.recording.blocks import Block, Damage
from stoker.mesh.recording.recorder import FileBlocks, Recorder
from stoker.mesh.recording.recording_file import RecordedBy
from stoker.mesh.recording.sampler import ClusterSampler, gap
from stoker.native.errors import Corrupt, NotFound

DETAILS: Final = 128
"""The most requests about single jobs and devices in one sample of a recording for a file."""
NOT_KEPT = (
    "devices, nodes and jobs of the past are in the ring of a node, which its administrator "
    "reads; the events and kernels of your jobs are here"
)


def ring_folder(state: str | None) -> Path | None:
    """Return the ring of the node that a command means, if this user may read one with content."""
    place = _state(state)
    folder = place / "agent" / ring_files.FOLDER if place is not None else None
    with contextlib.suppress(OSError):
        if (
            folder is not None
            and os.access(folder, os.R_OK | os.X_OK)
            and ring_files.segments(folder)
        ):
            return folder
    return None


def _state(state: str | None) -> Path | None:
    """Return the state folder, by the order in which `context.find` looks."""
    named = state or os.environ.get("STOKER_STATE")
    if named:
        return Path(named)
    saved = context.saved_path(os.environ)
    if os.path.exists(saved):  # noqa: PTH110  as in `context.find`
        place = context.read_saved(saved).state
        return Path(place) if place else None
    return context.default_state()


def of_ring(folder: Path, last_s: float, now_ns: int) -> bytes:
    """Return a recording of the past time, by whole segments; Corrupt if none of them is whole."""
    from_ns = now_ns - int(last_s * 1e9)
    made = bytearray(blocks.HEADER)
    for path in ring_files.since(folder, from_ns):
        with contextlib.suppress(FileNotFoundError):  # its time was over while it was looked for
            for piece in _whole(path):
                made += piece
    if len(made) == len(blocks.HEADER):
        raise NotFound(f"{folder} holds nothing of the past {last_s:g} s that is whole")
    return bytes(made)


def _whole(path: Path) -> Iterator[bytes]:
    """Yield the whole blocks of a segment, and a gap in the place of each damage."""
    data = path.read_bytes()
    try:
        begin = blocks.check_header(data, str(path))
    except Corrupt:  # its writer died before the first byte was written
        return
    last_ns = int(path.stem)
    for each in blocks.scan(data, begin):
        if isinstance(each, Block):
            last_ns = each.last_ns
            yield data[each.offset : each.offset + each.size]
        elif isinstance(each, Damage):
            told = gap(last_ns, last_ns + 1, f"{each.size} bytes of {path.name}: {each.why}")
            yield blocks.encode([told], key=False)


async def of_bus(client: Client, last_s: float, write: Callable[[bytes], object]) -> None:
    """Write a recording of what the bus still tells of the past, and of this moment."""
    now_ns = time.time_ns()
    sink = FileBlocks(write)
    sampler = ClusterSampler(client, since_s=last_s, details=DETAILS)
    recorder = Recorder(sampler, sink, _about(client, 0.0))
    await sampler_ready(recorder)
    recorder.flush()
    told = gap(now_ns - int(last_s * 1e9), now_ns, NOT_KEPT)
    sink.append([told], key=False, now_ns=time.time_ns())


async def sampler_ready(recorder: Recorder) -> None:
    """Take two samples: the first one names the jobs and devices whose details the second reads."""
    await recorder.step()
    await recorder.step()


async def for_a_while(
    client: Client, seconds: float, interval_s: float, write: Callable[[bytes], object],
    stop: asyncio.Event,
) -> None:  # fmt: skip
    """Write a recording of what happens now, until the time is over or `stop` is set."""
    sampler = ClusterSampler(client, details=DETAILS)
    recorder = Recorder(sampler, FileBlocks(write), _about(client, interval_s))
    loop = asyncio.get_running_loop()
    end, due = loop.time() + seconds, loop.time()
    while not stop.is_set():
        await recorder.step()
        due = max(due + interval_s, loop.time())
        if due > end:
            break
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(due - loop.time()):
                await stop.wait()
    recorder.flush()


def _about(client: Client, interval_s: float) -> RecordedBy:
    from stoker import __version__

    return RecordedBy(__version__, client.user, interval_s, "bus")
