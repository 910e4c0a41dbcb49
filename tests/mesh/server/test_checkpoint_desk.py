# SPDX-License-Identifier: Apache-2.0
"""A scheduler signs each state of which it saved a snapshot, and its head now and then."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.log import signed_checkpoint
from stoker.mesh.replica.snapshots import agreement
from stoker.mesh.server import checkpoint_desk as module
from stoker.mesh.server.checkpoint_desk import CheckpointDesk
from tests.mesh.bench import Bench

SIGNER = identity.of_raw(bytes(range(32)))


@pytest.fixture
def bench() -> Bench:
    made = Bench(SIGNER).lead().hello()
    made.submit(1)
    return made


async def test_a_snapshot_is_signed_with_the_digest_of_its_state(
    bench: Bench, tmp_path: Path
) -> None:
    desk = CheckpointDesk(bench.replica, SIGNER, tmp_path / "archive")
    snapshot = bench.replica.state.snapshot()
    await desk.saved(snapshot)
    (made,) = signed_checkpoint.read(tmp_path / "archive" / "checkpoints")
    made.check()
    assert (made.index, made.hash, made.key) == (
        snapshot.index, snapshot.hash.hex(), SIGNER.public
    )  # fmt: skip
    assert made.state == agreement(snapshot).hex()


async def test_the_head_is_signed_once_until_it_moves(bench: Bench, tmp_path: Path) -> None:
    desk = CheckpointDesk(bench.replica, SIGNER, tmp_path)
    await desk.period()
    await desk.period()
    first = bench.replica.state.index
    assert [each.index for each in desk.told(first)] == [first]
    bench.submit(2)
    await desk.period()
    last = bench.replica.state.index
    assert [each.index for each in desk.told(last)] == [first, last]
    assert [each.index for each in desk.told(first)] == [first], "none beyond what is told"


async def test_an_auditor_is_told_the_newest(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOLD_MAX", 2)
    desk = CheckpointDesk(bench.replica, SIGNER, tmp_path)
    for number in range(2, 6):
        bench.submit(number)
        await desk.period()
    last = bench.replica.state.index
    assert [each.index for each in desk.told(last)][-1] == last and len(desk.told(last)) == 2


async def test_a_disk_that_takes_none_stops_nothing(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("a file in the place of the folder")
    desk = CheckpointDesk(bench.replica, SIGNER, tmp_path / "archive")
    await desk.period()
    await desk.saved(bench.replica.state.snapshot())
