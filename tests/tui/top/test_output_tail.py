# SPDX-License-Identifier: Apache-2.0
"""The end of output is found in a few requests, followed without a gap, and bounded."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.mesh.wire import schema
from stoker.tui.top import output_tail
from stoker.tui.top.output_tail import LINES_MAX, OutputTail, shown


class Output:
    """A client whose job has written `out` and `err`."""

    def __init__(self, out: bytes = b"", err: bytes = b"") -> None:
        self.data = {"out": out, "err": err}
        self.attempt, self.requests, self.absent = 1, 0, ""
        self.spooled = ""

    async def logs(self, request: schema.LogsRequest) -> schema.LogsView:
        self.requests += 1
        data = self.data[request.stream][request.offset : request.offset + request.limit]
        end = request.offset + len(data)
        return schema.LogsView(
            job=1, stream=request.stream, data=data, next_offset=end,
            eof=bool(self.absent or self.spooled) and not data,
            attempt=self.attempt, absent=self.absent,
            spooled=self.spooled if request.stream == "out" else "",
        )  # fmt: skip


async def test_short_output_is_whole_and_then_grows() -> None:
    output: Any = Output(b"one\ntwo\nhal")
    tail = OutputTail(1)
    assert (await tail.read(output)).lines == ("one", "two", "hal")
    output.data["out"] += b"f\nthree\n"
    output.data["err"] += b"oh\n"
    found = await tail.read(output)
    assert found.lines == ("one", "two", "half", "three", "-- stderr --", "oh")
    assert found.skipped_bytes == 0


@pytest.mark.parametrize("size", [output_tail.TAIL_BYTES * 3, 5_000_000, 50_000_000])
async def test_long_output_is_read_from_near_its_end(size: int) -> None:
    line = b"0123456789abcde\n"
    output: Any = Output(line * (size // len(line)) + b"last\n")
    found = await OutputTail(1).read(output)
    assert found.lines[-1] == "last"
    assert 0 < len(found.lines) <= LINES_MAX
    assert found.skipped_bytes >= size - 4 * output_tail.TAIL_BYTES
    assert output.requests < 40


async def test_output_on_a_host_that_is_given_up_is_said_once() -> None:
    output: Any = Output(b"first\n")
    tail = OutputTail(1)
    await tail.read(output)
    output.data["err"], output.absent = b"", "node third is given up"
    for _ in range(2):
        found = await tail.read(output)
        assert found.lines.count("-- node third is given up --") == 2, "once for each stream"
        assert found.lines[0] == "first"


async def test_another_attempt_is_told_and_read_from_its_start() -> None:
    output: Any = Output(b"first\n")
    tail = OutputTail(1)
    await tail.read(output)
    output.data["out"], output.attempt = b"second\n", 2
    assert (await tail.read(output)).lines == ("first", "-- attempt 2 --", "second")


async def test_a_line_without_an_end_is_broken_and_nothing_grows_without_bound() -> None:
    output: Any = Output(b"x" * 100_000)
    found = await OutputTail(1).read(output)
    assert max(map(len, found.lines)) == output_tail.LINE_MAX


def test_a_carriage_return_starts_a_line_anew() -> None:
    assert shown(b"10 %\r50 %\r100 %\r") == "100 %"
    assert shown(b"a\tb\xff") == "a       b\ufffd"


async def test_spooled_output_ends_with_where_it_is_from() -> None:
    output: Any = Output(b"one\ntwo\n")
    output.spooled = "node node2 is given up; the first 8 bytes of stdout were spooled"
    tail = OutputTail(1)
    for _ in range(2):
        found = await tail.read(output)
        assert found.lines == ("one", "two", f"-- {output.spooled} --")
        assert found.eof
