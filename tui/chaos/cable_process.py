# SPDX-License-Identifier: Apache-2.0
"""The process that is a bad cable: it carries frames between two TAP devices, as its queues say.

`python -m stoker.tui.chaos.cable_process CABLE`, where CABLE is JSON: the names of both devices,
the quality of each direction and the seed. It writes a line when the devices are there, and the
counts of both directions when its input ends. Owns that the devices end with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import select
import struct
import sys
import time
from typing import Any, Final

from stoker.tui.chaos.frame_queue import CableQuality, FrameQueue

TUN = "/dev/net/tun"
DIRECTIONS: Final = ("sent", "heard")
"""The frames that the host sends, and those that others send to it."""
FRAME_BYTES = 65_536
BATCH = 64
"""The most frames that are read from one device before those that are due go out."""
LAST_BATCH = 4096
"""The most that are read from one device at the end; a device holds 1,000 (its transmit queue)."""
_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
"""Constants of linux/if_tun.h. Without a further flag the kernel hands out frames as a wire has
them: no longer than the MTU, with their checksums."""


def main(argument: str) -> None:
    """Be a cable until the input ends."""
    cable: dict[str, Any] = json.loads(argument)
    near, far = _tap(cable["near"]), _tap(cable["far"])
    queues = [
        FrameQueue(CableQuality(*cable[name]), random.Random(f"{cable['seed']}/{name}"))
        for name in DIRECTIONS
    ]
    print("ready", flush=True)
    carry({near: (queues[0], far), far: (queues[1], near)}, sys.stdin.fileno())
    counts = zip(DIRECTIONS, queues, strict=True)
    print(json.dumps({name: queue.counts._asdict() for name, queue in counts}), flush=True)


def _tap(name: str) -> int:
    """Make a TAP device, which is there until its file is closed."""
    file = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
    return file


def carry(ways: dict[int, tuple[FrameQueue, int]], over: int) -> None:
    """Carry frames from each device to the other one until `over` can be read. Those that wait in
    a device then go in as well, since a busy machine may have kept this process from them."""
    while True:
        due = [at for queue, _ in ways.values() if (at := queue.next_s()) is not None]
        wait_s = max(0.0, min(due) - time.monotonic()) if due else None
        ready, _, _ = select.select([over, *ways], [], [], wait_s)
        ends = over in ready
        for source in ways if ends else ready:
            _take_in(source, ways[source][0], LAST_BATCH if ends else BATCH)
        for queue, target in ways.values():
            _let_out(queue, target)
        if ends:
            return


def _take_in(source: int, queue: FrameQueue, most: int) -> None:
    with contextlib.suppress(BlockingIOError):
        for _ in range(most):
            queue.put(os.read(source, FRAME_BYTES), time.monotonic())


def _let_out(queue: FrameQueue, target: int) -> None:
    for frame in queue.due(time.monotonic()):
        with contextlib.suppress(OSError):  # the device is down: no plug is in there
            os.write(target, frame)


if __name__ == "__main__":
    main(sys.argv[1])
