# SPDX-License-Identifier: Apache-2.0
"""The table of revoked keys: kept sealed, bounded, and never silently lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.broker import revoked_keys
from stoker.mesh.broker.revoked_keys import RevokedKey
from stoker.mesh.identity import identity
from stoker.native.errors import Corrupt

KEYS = [identity.of_raw(number.to_bytes(2, "big") * 16).public for number in range(3)]


def row(at_s: int, why: str = "stolen") -> RevokedKey:
    return RevokedKey("node", "b", at_s, why)


def test_it_is_empty_until_a_key_is_revoked_and_comes_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "revoked.json"
    assert revoked_keys.load(path) == {}
    rows = revoked_keys.with_key({}, KEYS[0], row(20))
    rows = revoked_keys.with_key(rows, KEYS[1], row(10))
    revoked_keys.save(path, rows)
    assert path.stat().st_mode & 0o077 == 0
    assert list(revoked_keys.load(path)) == [KEYS[1], KEYS[0]], "the oldest first"
    assert rows[KEYS[0]].owner == "node b"


def test_a_repeat_changes_nothing_and_the_oldest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(revoked_keys, "KEPT", 2)
    rows = revoked_keys.with_key({}, KEYS[0], row(1))
    assert revoked_keys.with_key(rows, KEYS[0], row(9, "again")) == rows
    for number in (1, 2):
        rows = revoked_keys.with_key(rows, KEYS[number], row(number + 1))
    assert list(rows) == KEYS[1:]


@pytest.mark.parametrize("change", ["digit", "key", "size"])
def test_a_damaged_table_is_named(tmp_path: Path, change: str) -> None:
    path = tmp_path / "revoked.json"
    revoked_keys.save(path, revoked_keys.with_key({}, KEYS[0], row(20)))
    data = path.read_bytes()
    if change == "digit":
        path.write_bytes(data.replace(b"20", b"21"))
    elif change == "key":
        path.write_bytes(b'{"no key": {"kind": "node", "name": "b", "revoked_s": 1, "why": ""}}')
    else:
        path.write_bytes(b" " * (revoked_keys.FILE_BYTES_MAX + 1))
    with pytest.raises(Corrupt, match=r"revoked\.json"):
        revoked_keys.load(path)
