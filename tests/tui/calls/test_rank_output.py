# SPDX-License-Identifier: Apache-2.0
"""Merged output of a gang: whole lines behind the numbers of their ranks."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.mesh.wire import schema
from stoker.native.errors import NotFound
from stoker.tui.calls import rank_output, views
from stoker.tui.calls.rank_output import RankLines


def test_lines_of_two_ranks_never_mix() -> None:
    got: list[bytes] = []
    first, other = RankLines(got.append, 3, 12), RankLines(got.append, 11, 12)
    first.write(b"one\ntw")
    other.write(b"\x00raw")
    first.write(b"o\nrest")
    other.write(b"\n")
    first.end()
    other.end()
    assert b"".join(got) == b" 3: one\n 3: two\n11: \x00raw\n 3: rest\n"


def test_a_line_without_an_end_is_held_back_up_to_a_limit() -> None:
    got: list[bytes] = []
    lines = RankLines(got.append, 0, 2)
    lines.write(b"x" * (rank_output.LINE_BYTES_MAX - 1))
    assert got == []
    lines.write(b"x")
    assert got == [b"0: " + b"x" * rank_output.LINE_BYTES_MAX + b"\n"]


def test_a_rank_that_is_not_there_is_named() -> None:
    views.check_rank(1, 4, None)
    views.check_rank(1, 4, 3)
    with pytest.raises(NotFound, match="job 1 has no rank 4: it has ranks 0 to 3"):
        views.check_rank(1, 4, 4)
    with pytest.raises(NotFound, match="one task, rank 0"):
        views.check_rank(1, 1, 1)


class Spool:
    """A client whose job was on a host that is lost, and had spooled some of its stdout."""

    def __init__(self, lacks: bool) -> None:
        self.lacks = lacks

    async def logs(self, request: schema.LogsRequest) -> schema.LogsView:
        data = b"kept\n"[request.offset :] if request.stream == "out" else b""
        return schema.LogsView(
            job=7, stream=request.stream, data=data, next_offset=5, eof=True, attempt=1,
            spooled="node node2 is given up; the first 5 bytes of stdout were spooled",
            lacks=self.lacks and request.stream == "out",
        )  # fmt: skip


@pytest.mark.parametrize("lacks", [True, False])
async def test_spooled_output_is_written_and_what_it_lacks_is_an_error(
    lacks: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    lost: list[NotFound] = []
    spool: Any = Spool(lacks)
    for copy in rank_output.copies(spool, 7, 1, follow=False, lost=lost.append):
        await copy
    shown = capfd.readouterr()
    said = "node node2 is given up; the first 5 bytes of stdout were spooled"
    assert shown.out == "kept\n"
    assert [each.message for each in lost] == ([f"job 7: {said}"] if lacks else [])
    assert said in " ".join(shown.err.split()), "that of stderr is whole"
