# SPDX-License-Identifier: Apache-2.0
"""The record of the log in the state folder: a log that vanished or was cut is refused by name."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import nats.errors
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import log_record
from stoker.mesh.log.log_record import LogRecord
from stoker.mesh.log.model_log import ModelLog
from stoker.native.errors import Corrupt, StokerError
from tests.mesh.bench import Bench
from tests.mesh.nats_server import Server
from tests.mesh.node import Node


@pytest.fixture
def signer(tmp_path: Path) -> Identity:
    return identity.create(tmp_path / "s")


def test_the_file_says_new_then_made_then_how_far(tmp_path: Path) -> None:
    assert log_record.read(tmp_path) is None
    log_record.begin(tmp_path)
    assert log_record.read(tmp_path) == LogRecord(is_new=True)
    log_record.made(tmp_path, 0)
    log_record.begin(tmp_path)  # beginning twice changes nothing
    assert log_record.read(tmp_path) == LogRecord(is_new=False)
    log_record.reached(tmp_path, 1 << 60)
    assert log_record.read(tmp_path) == LogRecord(is_new=False, tail=1 << 60)


@pytest.mark.parametrize("text", [b"", b"made\n", b"new  0000", b"made " + b"x" * 20 + b"\n"])
def test_anything_else_is_refused_by_name(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "log").write_bytes(text)
    with pytest.raises(Corrupt, match="is not a record of a log"):
        log_record.read(tmp_path)


def test_a_log_that_holds_less_than_is_known_is_not_led(signer: Identity) -> None:
    first = Bench(signer).lead()
    first.submit("s")
    del first.log.entries[first.log.last]
    first.log.last -= 1
    known = Bench(signer, first.log, known_tail=first.replica.state.seen)
    known.tick()
    assert known.replica.role == "halted"
    assert known.halted == "the log ends at entry 1, though entry 2 was acknowledged"
    assert known.log.last == 1


def torn(signer: Identity, log: ModelLog | None = None) -> Bench:
    """Return a scheduler that met a full disk: its second entry has a number and no content."""
    bench = Bench(signer, log).lead()
    bench.log.tear()
    bench.submit("s", key=b"k")
    return bench


def test_an_end_that_cannot_be_read_is_passed_over_and_attested(signer: Identity) -> None:
    bench = torn(signer)
    for _ in range(100):
        bench.tick()
    assert (bench.replica.role, bench.replica.counters["log_hole"]) == ("leading", 1)
    assert bench.replies["s"].job == 1
    again = Bench(signer, bench.log).lead()
    again.submit("t", key=b"k")
    assert again.replies["t"].job == 1
    assert again.replica.state.seen == again.log.last
    assert 2 not in again.log.entries


class Forgetful(ModelLog):
    """JetStream restarts just before the append behind a hole, and counts only what it has."""

    def append(self, tail: int, entry: bytes) -> int:
        if tail == self.last and tail and tail not in self.entries:
            self.last = max(self.entries)
        return super().append(tail, entry)


def test_a_hole_that_the_engine_forgets_is_no_gap(signer: Identity) -> None:
    bench = torn(signer, Forgetful())
    for _ in range(100):
        bench.tick()
    assert (bench.replica.role, bench.replica.counters["log_hole"]) == ("leading", 1)
    assert bench.replies["s"].job == 1
    assert sorted(bench.log.entries) == [1, 2, 3]


def test_an_entry_lost_from_the_middle_is_still_a_gap(signer: Identity) -> None:
    bench = Bench(signer).lead()
    bench.submit("s")
    bench.submit("t")
    del bench.log.entries[2]
    again = Bench(signer, bench.log)
    again.tick()
    assert again.halted == "log entry 2 is missing, 3 came"


# --- with a broker --------------------------------------------------------------------------------


@pytest.fixture
async def node(server_stopped_with_admin: Server) -> AsyncIterator[Node]:
    node = Node(server_stopped_with_admin)
    await node.start()
    await node.ask("alice", "job", "submit", argv=("true",))
    await node.ask("alice", "job", "get", job=1, until="ended", wait_s=10.0)
    yield node
    await node.stop()


def exit_code(node: Node) -> int:
    node.start_scheduler()
    assert node.process is not None
    return node.process.wait(30)


def lose_stream(node: Node) -> Path:
    (stream,) = Path(node.server.settings.store_dir).glob("**/streams/*")
    shutil.rmtree(stream)
    return stream


async def test_a_vanished_stream_is_refused_and_never_made_again(node: Node) -> None:
    assert node.end_scheduler() == 0
    node.server.stop()
    stream = lose_stream(node)
    node.server.start()
    assert exit_code(node) == 3
    assert "the log's stream is gone, and every accepted job with it" in node.log()
    assert "Exception ignored" not in node.log()  # its connections were closed before its loop was
    assert exit_code(node) == 3, "a refused start records nothing that lets the next one begin"
    (node.folder / "scheduler" / "log").unlink()  # with both lost, nothing is proposed
    assert exit_code(node) == 3
    assert not stream.exists()


async def test_a_stream_that_vanishes_under_a_scheduler_halts_it(node: Node) -> None:
    node.server.kill()
    lose_stream(node)
    node.server.start()
    halted = "STATUS=blocked: halted: the log's stream is gone"
    for _ in range(1000):
        with contextlib.suppress(StokerError, nats.errors.Error, TimeoutError):
            await node.raw("alice", "stoker.v1.job.submit", b'{"argv":["true"]}', 0.5)
        if halted in node.listen():
            break
        await asyncio.sleep(0.05)  # without a broker each request fails at once
    assert halted in node.listen(), node.log()
    assert node.process is not None and node.process.poll() is None


async def test_a_crash_between_making_the_stream_and_saying_so_costs_nothing(node: Node) -> None:
    node.kill_scheduler()
    (node.folder / "scheduler" / "log").unlink()
    log_record.begin(node.folder / "scheduler")
    node.start_scheduler()
    view = await node.persist("alice", "job", "get", job=1)
    assert view.state == "succeeded"
    assert log_record.read(node.folder / "scheduler") is not None


async def test_an_end_that_is_cut_off_is_refused_with_what_to_do(node: Node) -> None:
    assert node.end_scheduler() == 0
    known = log_record.read(node.folder / "scheduler")
    assert known is not None and known.tail > 2
    node.server.stop()
    newest = max(Path(node.server.settings.store_dir).glob("**/msgs/*.blk"))
    newest.write_bytes(newest.read_bytes()[:-40])
    node.server.start()
    assert exit_code(node) == 3
    assert f"though entry {known.tail} was acknowledged" in node.log()
    assert "remove" in node.log()
    (node.folder / "scheduler" / "log").unlink()
    node.start_scheduler()
    await node.until(lambda: node.listen().count("READY=1") == 2)
