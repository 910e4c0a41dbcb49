# SPDX-License-Identifier: Apache-2.0
"""Other nodes that run on this host, found by their run folders.

Records of others are read as hostile input. Only a folder's owner is believed about the node in it,
and the node's supervisor must run as that owner.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec

from stoker.agent.state.host_facts import boot_id
from stoker.agent.state.state_folder import StateFolder, user_name
from stoker.agent.supervise import pids
from stoker.mesh.connection.context import FILE_BYTES_MAX, NodeEndpoint
from stoker.native.errors import Refused

FOLDERS_MAX = 256
"""The largest number of run folders that are read per place."""
_ROOTS = (("/run/stoker", "*"), ("/run/user", "*/stoker/*"), ("/tmp", "stoker-*/*"))

BESIDE = "`stoker up --beside`, or --state DIR"

T = TypeVar("T")


class OtherNode(msgspec.Struct, frozen=True):
    """A node that runs."""

    uid: int
    url: str
    root: str

    @property
    def is_mine(self) -> bool:
        return self.uid == os.geteuid()

    @property
    def text(self) -> str:
        """`tls://127.0.0.1:4222, the node of uid 0 (root) in /var/lib/stoker`."""
        whose = "your node" if self.is_mine else f"the node of {user_name(self.uid)}"
        return f"{self.url}, {whose} in {self.root}"

    @property
    def way(self) -> str:
        """A command or a person that gives this user access to the node."""
        if self.is_mine:
            return f"export STOKER_STATE={self.root}"
        return f"{user_name(self.uid)} gives out keys: stoker user add {_me()}"


def _me() -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())


def running(but: StateFolder) -> list[OtherNode]:
    """Return all nodes except that of this folder: root's first, then this user's."""
    found = [each for folder in _folders(but) if (each := _look(folder)) is not None]
    return sorted(found, key=lambda each: (each.uid != 0, not each.is_mine, each.root))


def check(where: StateFolder, *, wanted: bool) -> list[OtherNode]:
    """Return the nodes beside which a second one starts. Refused if nobody `wanted` a second one
    and root's or this user's node runs; nodes of other users do not matter."""
    found = running(where)
    first = next((each for each in found if each.uid == 0 or each.is_mine), None)
    if first is None or wanted:
        return found
    raise Refused(
        f"a node runs on this host already: {first.text}",
        hint=f"To use it: {first.way}. To start another beside it: {BESIDE}",
    )


def _folders(but: StateFolder) -> Iterator[Path]:
    for root, pattern in _ROOTS:
        with contextlib.suppress(OSError):
            for folder in islice(Path(root).glob(pattern), FOLDERS_MAX):
                if folder.name != but.instance:
                    yield folder


def _look(folder: Path) -> OtherNode | None:
    endpoint = _read(folder / "endpoint.json", NodeEndpoint)
    record = _read(folder / "pids.json", pids.Pids)
    if endpoint is None or record is None or endpoint[1] != record[1]:
        return None
    if record[0].boot_id != boot_id() or not _runs(record[0], uid := record[1]):
        return None
    named = endpoint[0].url, endpoint[0].state
    return OtherNode(uid, *named) if all(each.isprintable() for each in named) else None


def _runs(recorded: pids.Pids, uid: int) -> bool:
    """True if the node's supervisor lives and runs as that user."""
    process = recorded.processes.get(pids.SUPERVISOR)
    if process is None or not pids.lives(process):
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process.pid}").stat().st_uid == uid
    return False


def _read(path: Path, kind: type[T]) -> tuple[T, int] | None:
    """Return (record, uid of its file); None if the file is missing or not valid."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return None
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(file.read(FILE_BYTES_MAX), type=kind), found.st_uid
    return None
