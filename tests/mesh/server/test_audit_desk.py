# SPDX-License-Identifier: Apache-2.0
"""The pages of a scheduler's trail: no gap between archive and log, whatever moves meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from stoker.mesh.log import held_entries
from stoker.mesh.log.held_entries import HeldEntries
from stoker.mesh.log.log_archive import LogArchive
from stoker.mesh.server import audit_desk
from stoker.mesh.server.audit_desk import AuditDesk
from stoker.mesh.server.service import Caller
from stoker.mesh.wire.schema_audit import AuditReadRequest, AuditView
from stoker.native.errors import Denied

ENTRIES = [(place, b"entry %d" % place) for place in range(1, 101)]
BEFORE_READ: list[Any] = []
"""The calls that the next reading of the log makes first."""


class Log:
    """A log that gives its entries in batches of 10."""

    def __init__(self, first: int) -> None:
        self.first = first

    async def read_from(self, seq: int) -> AsyncIterator[list[tuple[int, bytes]]]:
        if BEFORE_READ:
            BEFORE_READ.pop()()
        there = [each for each in ENTRIES if each[0] >= max(seq, self.first)]
        for at in range(0, len(there), 10):
            yield there[at : at + 10]


def desk(archive: LogArchive, log: Log, held: HeldEntries | None = None, seen: int = 100) -> Any:
    state = SimpleNamespace(
        cluster="c", index=seen, seen=seen, hash=b"h", trail=b"t", schedulers=()
    )
    replica = cast(Any, SimpleNamespace(state=state))
    return AuditDesk(replica, "UKEY", archive, cast(Any, log), held)


async def page(of: AuditDesk, after: int, *, admin: bool = True) -> AuditView:
    caller = Caller(None, "root", "audit", "read", admin, AuditReadRequest(after=after))
    return msgspec.json.decode(await of.answer(caller), type=AuditView)


async def whole(of: AuditDesk) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    more = True
    while more:
        view = await page(of, found[-1][0] if found else 0)
        found += [(each.place, each.data) for each in view.entries]
        more = view.more
    return found


@pytest.fixture
def archive(tmp_path: Path) -> LogArchive:
    return LogArchive(tmp_path / "archive")


async def test_archive_and_log_are_read_as_one(
    archive: LogArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_desk, "ENTRIES_BYTES_MAX", 50)
    for end in (20, 60):
        archive.add(ENTRIES[:end])
    assert await whole(desk(archive, Log(61))) == ENTRIES
    assert await whole(desk(archive, Log(1), seen=37)) == ENTRIES[:37], "what is applied"


async def test_entries_that_are_trimmed_while_they_are_read_come_from_the_archive(
    archive: LogArchive,
) -> None:
    log = Log(1)

    def trim() -> None:
        archive.add(ENTRIES[:70])
        log.first = 71

    BEFORE_READ.append(trim)
    assert await whole(desk(archive, log)) == ENTRIES


async def test_one_of_several_reads_its_own_files(
    archive: LogArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_entries, "KEPT_MIN", 5)
    held = HeldEntries(tmp_path, is_new=True)
    held.store(0, tuple(ENTRIES), 1)
    held.saved(40, archive)
    assert await whole(desk(archive, Log(1000), held)) == ENTRIES
    assert await whole(desk(archive, Log(1000), held, seen=90)) == ENTRIES[:90]


async def test_only_an_administrator_reads_it(archive: LogArchive) -> None:
    with pytest.raises(Denied):
        await page(desk(archive, Log(1)), 0, admin=False)


async def test_beyond_the_end_is_nothing(archive: LogArchive) -> None:
    view = await page(desk(archive, Log(1)), 100)
    assert view.entries == () and not view.more
