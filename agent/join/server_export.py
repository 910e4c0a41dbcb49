# SPDX-License-Identifier: Apache-2.0
"""One file with all that makes a server: its keys, its tables and its place in the cluster.

`stoker cluster export` writes it, and `host_replacement.py` makes a host of it. Owns that the file
is private and whole, and has neither the log nor anything that the scheduler has acknowledged: a
server that is made of it knows that it has forgotten, and learns from the others.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from pathlib import Path

import msgspec

from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.mesh.broker import revoked_keys
from stoker.native.errors import BadRequest, Corrupt, Refused

MAGIC = b"stoker server 1\n"
BYTES_MAX = 16 << 20
"""The largest file that is read; users and nodes take a few hundred bytes each."""
_FILES = (
    *("format", "cluster.json", "genesis.json", "users.json", "joins.json", "config.toml"),
    revoked_keys.FILE,
)
_NAME = re.compile(rf"keys/[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}|{'|'.join(map(re.escape, _FILES))}")


class ServerExport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a file."""

    node: str
    made_s: int
    """The time at which it was made, in seconds since 1970."""
    files: dict[str, bytes]
    """The files of the state folder by their names in it."""


@state_folder.disk_errors()
def write(where: StateFolder, to: Path) -> ServerExport:
    """Write the file of the server in this folder; Refused for a node that is none."""
    with state_folder.edit_lock(where):
        cluster = state_folder.load(where)
        if not cluster.several:
            raise Refused(
                f"node {cluster.node} is no server beside others, which could give it the log back",
                hint="Keep a copy of its state folder; a node that joined can join again",
            )
        if cluster.waits:
            raise Refused(f"the cluster of {cluster.node} is not founded: servers are missing")
        names = [*_FILES, *(f"keys/{path.name}" for path in sorted(where.keys.iterdir()))]
        found = {name: where.root / name for name in names}
        files = {name: path.read_bytes() for name, path in found.items() if path.is_file()}
    made = ServerExport(cluster.node, int(time.time()), files)
    _create(to, encode(made))
    return made


def _create(path: Path, data: bytes) -> None:
    """Make a private file that was not there, durably."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Refused(f"{path} exists already", hint="Name a new file") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def encode(made: ServerExport) -> bytes:
    """Return the bytes of the file: its kind, the SHA-256 of the rest, the rest."""
    body = msgspec.msgpack.encode(made)
    return MAGIC + hashlib.sha256(body).digest() + body


@state_folder.disk_errors()
def read(path: Path) -> ServerExport:
    """Return what a file has; Corrupt or BadRequest for another one."""
    with path.open("rb") as file:
        data = file.read(BYTES_MAX + 1)
    if not data.startswith(MAGIC) or len(data) > BYTES_MAX:
        raise BadRequest(f"{path} was not made by `stoker cluster export` of this version")
    digest, body = data[len(MAGIC) : len(MAGIC) + 32], data[len(MAGIC) + 32 :]
    if hashlib.sha256(body).digest() != digest:
        raise Corrupt(f"{path} is damaged", hint="Take another copy of it")
    try:
        found = msgspec.msgpack.decode(body, type=ServerExport)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{path} cannot be read: {error}") from None
    for name in found.files:
        if not _NAME.fullmatch(name):
            raise BadRequest(f"{path} has a file {name[:80]!r}, which no server has")
    return found
