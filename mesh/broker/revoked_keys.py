# SPDX-License-Identifier: Apache-2.0
"""The table of revoked keys, `<state>/revoked.json`: whose each was, and why it counts no more.

Owns that a key in this table is in force nowhere, whatever other tables say. Bounded: beyond KEPT
the oldest is forgotten, which then is a key that nobody knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from stoker.mesh.identity import identity, sealed_json
from stoker.native import durable_file
from stoker.native.errors import BadRequest, Corrupt, Denied

KEPT = 1024
FILE_BYTES_MAX = 1 << 20
FILE = "revoked.json"

KeyKind = Literal["node", "user"]


class RevokedKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One revoked key, which its public half names in the table."""

    kind: KeyKind
    name: str
    revoked_s: int
    """CLOCK_REALTIME, in seconds."""
    why: str

    @property
    def owner(self) -> str:
        """The owner as people read it: `node b` or `user alice`."""
        return f"{self.kind} {self.name}"


RevokedKeys = Mapping[str, RevokedKey]


def load(path: Path) -> dict[str, RevokedKey]:
    """Return the table, the oldest first; empty where no key was revoked yet."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Denied(f"{path}: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise Corrupt(f"{path} has {len(data)} bytes, at most {FILE_BYTES_MAX}")
    return parse(data, path)


def parse(data: bytes, path: Path) -> dict[str, RevokedKey]:
    """Return the table that is the content of the file `path`; Corrupt if it is none."""
    try:
        rows = sealed_json.decode(data, dict[str, RevokedKey])
        for public in rows:
            identity.Verifier(public)
    except (msgspec.MsgspecError, BadRequest) as error:
        raise Corrupt(f"{path}: {error}", hint="Restore it from a backup") from None
    return dict(sorted(rows.items(), key=lambda item: item[1].revoked_s))


def save(path: Path, rows: RevokedKeys) -> None:
    """Replace the table durably; only its owner can read it."""
    durable_file.replace(path, sealed_json.encode(dict(rows)))


def with_key(rows: RevokedKeys, public: str, row: RevokedKey) -> dict[str, RevokedKey]:
    """Return the table with one more key; one that is there stays as it is."""
    if public in rows:
        return dict(rows)
    made = {**rows, public: row}
    return dict(list(made.items())[-KEPT:])
