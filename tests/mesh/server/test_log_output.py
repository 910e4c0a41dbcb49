# SPDX-License-Identifier: Apache-2.0
"""A log file that cannot be written loses lines and breaks nothing else."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker.mesh.server.log_output import LogLines
from tests.mesh.nats_server import Server
from tests.mesh.node import Node


def test_lines_that_cannot_be_written_are_counted_and_said_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    file = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    lines = LogLines(full)
    for n in range(3):
        assert lines.write(f"line {n}\n") == 7
    assert lines.lost == 3
    lines._descriptor = file
    lines.write("line 3\n")
    lines.write("line 4\n")
    assert os.pread(file, 1000, 0).decode().splitlines() == [
        '{"event": "log lines were lost", "count": 3}',
        "line 3",
        "line 4",
    ]
    assert lines.lost == 0
    os.close(full)
    os.close(file)


def test_the_line_after_a_torn_one_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    said = bytearray()
    room = [3, 0, 1000, 1000]

    def write(_: int, data: bytes) -> int:
        count = min(room.pop(0), len(data))
        said.extend(data[:count])
        return count

    monkeypatch.setattr(os, "write", write)
    lines = LogLines()
    for n in range(4):
        lines.write(f"line {n}\n")
    assert said.decode().splitlines() == [
        "lin",
        '{"event": "log lines were lost", "count": 2}',
        "line 2",
        "line 3",
    ]


@pytest.fixture
async def node(server_stopped_with_admin: Server) -> AsyncIterator[Node]:
    node = Node(server_stopped_with_admin)
    node.stderr = Path("/dev/full")
    yield await node.start()
    await node.stop()


async def test_a_scheduler_that_can_say_nothing_leads_and_comes_back(node: Node) -> None:
    """Each restart of the broker makes the scheduler log warnings, which cannot be written."""
    for number in range(1, 4):
        asked = node.ask("alice", "job", "submit", argv=("true",), idempotency_key=str(number))
        assert (await asked).job == number
        node.server.kill()
        node.server.start()
        view = await node.persist(
            "alice", "job", "submit", argv=("true",), idempotency_key=str(number)
        )
        assert view.job == number
    assert node.process is not None
    assert node.process.poll() is None
