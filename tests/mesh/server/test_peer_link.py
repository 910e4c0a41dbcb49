# SPDX-License-Identifier: Apache-2.0
"""The effects on other schedulers: durable before anything later, or the process ends."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from stoker.mesh.log.held_entries import HeldEntries, Word
from stoker.mesh.replica import events
from stoker.mesh.replica.snapshots import SnapshotFolder
from stoker.mesh.server import peer_link
from stoker.mesh.server.peer_link import PeerLink


class Ended(BaseException):
    """The process would have ended here."""


@pytest.fixture
def held(tmp_path: Path) -> HeldEntries:
    return HeldEntries(tmp_path, is_new=True)


@pytest.fixture
def link(tmp_path: Path, held: HeldEntries, monkeypatch: pytest.MonkeyPatch) -> PeerLink:
    def end(*_: object) -> NoReturn:
        raise Ended

    monkeypatch.setattr(peer_link, "end_for_disk", end)
    monkeypatch.setattr(peer_link, "begin_again", end)

    async def feed(event: events.Event) -> None:
        raise AssertionError(event)

    return PeerLink(1, SnapshotFolder(tmp_path), held, feed, lambda _: None)


async def test_a_store_is_durable_when_it_returns(
    link: PeerLink, held: HeldEntries, tmp_path: Path
) -> None:
    await link.store(events.Store(0, ((1, b"one"),), 9, (8, 1)))
    assert HeldEntries(tmp_path).read() == Word(((1, b"one"),), 9, (8, 1))


async def test_the_process_ends_if_the_disk_takes_no_entry(
    link: PeerLink, held: HeldEntries, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(held, "store", full)
    with pytest.raises(Ended):
        await link.store(events.Store(0, ((1, b"one"),), 9))


async def test_an_installation_ends_the_process_without_held_entries(
    link: PeerLink, held: HeldEntries, tmp_path: Path
) -> None:
    await link.store(events.Store(0, ((1, b"one"),), 9, (8, 1)))
    (tmp_path / f"{7:020d}.snapshot").write_bytes(b"another state")
    with pytest.raises(Ended):
        await link.install(events.Install(b"", "its state differs"))
    assert HeldEntries(tmp_path).read() == Word((), 9, (8, 1))
    assert not list(tmp_path.glob("*.snapshot"))


async def test_damaged_bytes_are_not_installed(
    link: PeerLink, held: HeldEntries, tmp_path: Path
) -> None:
    await link.store(events.Store(0, ((1, b"one"),), 9))
    with pytest.raises(Ended):
        await link.install(events.Install(b"no snapshot", "it is behind"))
    assert HeldEntries(tmp_path).read() == Word(((1, b"one"),), 9)


async def test_a_message_without_a_connection_is_counted_as_lost(
    tmp_path: Path, held: HeldEntries, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []

    async def feed(event: events.Event) -> None:
        raise AssertionError(event)

    alone = PeerLink(1, SnapshotFolder(tmp_path), held, feed, counted.append)

    async def publish(*_: object) -> NoReturn:
        raise ConnectionResetError

    monkeypatch.setattr(alone.connection, "publish", publish)
    await alone.send(events.SendPeer(2, b"sealed"))
    assert counted == ["peer_lost"]
