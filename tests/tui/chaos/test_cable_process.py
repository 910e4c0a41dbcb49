# SPDX-License-Identifier: Apache-2.0
"""A cable carries what waits in its devices also when it ends at once, and counts all of it."""

from __future__ import annotations

import os
import random
import socket

from stoker.tui.chaos.cable_process import BATCH, carry
from stoker.tui.chaos.frame_queue import CableQuality, FrameQueue

FRAMES = 3 * BATCH


def device() -> tuple[socket.socket, socket.socket]:
    """A host's end, and the cable's: one datagram is one frame, as with a TAP device."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return ends


def ended() -> int:
    """A file that is at its end."""
    reader, writer = os.pipe()
    os.close(writer)
    return reader


def carried(quality: CableQuality) -> tuple[FrameQueue, int]:
    """Put FRAMES into a cable that ends before it has run; return what came out."""
    (host, near), (far, others) = device(), device()
    queues = [FrameQueue(each, random.Random(1)) for each in (quality, CableQuality())]
    for number in range(FRAMES):
        host.send(number.to_bytes(2, "big"))
    over = ended()
    carry(
        {near.fileno(): (queues[0], far.fileno()), far.fileno(): (queues[1], near.fileno())}, over
    )
    os.close(over)
    found = []
    while True:
        try:
            found.append(others.recv(100))
        except BlockingIOError:
            break
    for end in (host, near, far, others):
        end.close()
    assert found == sorted(found)
    return queues[0], len(found)


def test_frames_that_wait_when_a_cable_ends_still_come_out() -> None:
    queue, came = carried(CableQuality())
    assert (queue.counts.frames, queue.counts.passed, came) == (FRAMES, FRAMES, FRAMES)


def test_each_frame_that_is_lost_at_the_end_is_counted() -> None:
    queue, came = carried(CableQuality(loss=0.5))
    assert queue.counts.frames == queue.counts.lost + came == FRAMES
    assert 0 < queue.counts.lost < FRAMES


def test_what_is_not_due_when_a_cable_ends_is_under_way() -> None:
    queue, came = carried(CableQuality(delay_s=60.0))
    assert (queue.counts.under_way, came) == (FRAMES, 0)
