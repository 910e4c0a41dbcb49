# SPDX-License-Identifier: Apache-2.0
"""The backup of a cluster: its state behind one entry of the log, with its users and settings.

`stoker cluster backup` writes it, `cluster restore` begins a cluster with it, and an audit of that
cluster begins with it, too. Owns that the file holds no private key, and that its state is whole.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from stoker.mesh.broker import revoked_keys
from stoker.mesh.identity import sealed_file
from stoker.mesh.identity.sealed_file import FileKind
from stoker.mesh.replica import origin, snapshots
from stoker.mesh.replica.snapshots import Snapshot
from stoker.native.errors import BadRequest

KIND = FileKind(b"stoker backup 1\n", "stoker cluster backup", (1 << 30) + (16 << 20))
"""The largest file has the largest snapshot that schedulers transfer, and the tables beside it."""
USERS, SETTINGS = "users.json", "config.toml"
FILES = (USERS, SETTINGS, revoked_keys.FILE)
"""The files of a server's state folder that are in the backup; others belong to its host."""


class FormerBroker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A broker of the cluster, by which a restore finds out whether the cluster still lives."""

    host: str
    port: int
    fingerprint: bytes
    """The SHA-256 of its certificate."""


class Backup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a file."""

    node: str
    """The server where it was taken."""
    made_ns: int
    """The time at which it was taken (CLOCK_REALTIME)."""
    brokers: tuple[FormerBroker, ...]
    snapshot: bytes
    """The state, as a snapshot file has it, without places in the log."""
    files: dict[str, bytes]

    @property
    def state(self) -> Snapshot:
        """The state; Corrupt unless this version can read it."""
        return snapshots.decode(self.snapshot, "the state in this backup")[0]


def of(
    node: str,
    made_ns: int,
    brokers: tuple[FormerBroker, ...],
    state: Snapshot,
    files: dict[str, bytes],
) -> Backup:
    """Return the backup of a state."""
    return Backup(node, made_ns, brokers, snapshots.encode(origin.plain(state)).data, files)


def write(path: Path, backup: Backup) -> None:
    """Write a private file that was not there; an error leaves no part of it."""
    sealed_file.create(path, sealed_file.encode(KIND, backup))


def read(path: Path) -> Backup:
    """Return a backup whose state can be read; Corrupt or BadRequest for any other file."""
    found = sealed_file.read(KIND, path, Backup)
    foreign = sorted(set(found.files) - set(FILES))
    if foreign or USERS not in found.files:
        raise BadRequest(f"{path} has no table of users, or a file that no backup has: {foreign}")
    _ = found.state
    return found
