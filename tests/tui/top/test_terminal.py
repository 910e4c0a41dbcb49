# SPDX-License-Identifier: Apache-2.0
"""The writer: a terminal that takes nothing blocks nobody, and loss is counted."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

import pytest

from stoker.tui.top.terminal import QUEUED_BYTES_MAX, FrameWriter


class Pipe:
    """A terminal that takes what a pipe holds, until somebody reads."""

    def __init__(self) -> None:
        self.out, self._in = os.pipe()
        self.file = os.fdopen(self._in, "w", encoding="utf-8")

    def read_all(self, count: int) -> str:
        found = b""
        while len(found) < count:
            found += os.read(self.out, 65_536)
        return found.decode()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    os.close(made.out)


def test_it_writes_in_order_and_says_when_all_is_taken(pipe: Pipe) -> None:
    writer = FrameWriter(pipe.file)
    writer.start()
    for at in range(100):
        writer.write(f"{at},")
    expected = "".join(f"{at}," for at in range(100))
    assert pipe.read_all(len(expected)) == expected
    writer.stop()
    assert writer.is_clear() and writer.written == len(expected) and not writer.is_alive()


def test_a_stuck_terminal_blocks_neither_a_write_nor_the_end(pipe: Pipe) -> None:
    writer = FrameWriter(pipe.file)
    writer.start()
    piece = "x" * 100_000
    for _ in range(QUEUED_BYTES_MAX // len(piece) + 10):
        writer.write(piece)
    assert not writer.is_clear()
    assert writer.dropped > 0
    writer.stop()
    assert writer.is_alive(), "it was left behind, because the terminal takes nothing"
    while writer.is_alive():
        if select.select([pipe.out], [], [], 0.05)[0]:
            os.read(pipe.out, 65_536)


def test_nothing_follows_what_gives_the_terminal_back(pipe: Pipe) -> None:
    writer = FrameWriter(pipe.file)
    writer.write("as before")
    writer.seal()
    writer.write("a late frame")
    writer.start()
    writer.stop()
    assert os.read(pipe.out, 100) == b"as before"
    assert writer.is_clear()


def test_a_terminal_that_is_gone_ends_nothing(pipe: Pipe) -> None:
    writer = FrameWriter(pipe.file)
    os.close(pipe.out)
    pipe.out = os.open(os.devnull, os.O_RDONLY)
    writer.start()
    writer.write("gone")
    writer.write("still gone")
    writer.stop()
    assert not writer.is_alive() and writer.is_clear()
