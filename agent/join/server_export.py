# SPDX-License-Identifier: Apache-2.0
"""One file with all that makes a server: its keys, its tables and its place in the cluster.

`stoker cluster export` writes it, and `host_replacement.py` makes a host of it. Owns that the file
is private and whole, and has neither the log nor anything that the scheduler has acknowledged: a
server that is made of it knows that it has forgotten, and learns from the others.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import msgspec

from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.mesh.broker import revoked_keys
from stoker.mesh.identity import sealed_file
from stoker.mesh.identity.sealed_file import FileKind
from stoker.native.errors import BadRequest, Refused

KIND = FileKind(b"stoker server 1\n", "stoker cluster export", 16 << 20)
"""Users and nodes take a few hundred bytes each of the largest file that is read."""
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
    sealed_file.create(to, sealed_file.encode(KIND, made))
    return made


@state_folder.disk_errors()
def read(path: Path) -> ServerExport:
    """Return what a file has; Corrupt or BadRequest for another one."""
    found = sealed_file.read(KIND, path, ServerExport)
    for name in found.files:
        if not _NAME.fullmatch(name):
            raise BadRequest(f"{path} has a file {name[:80]!r}, which no server has")
    return found
