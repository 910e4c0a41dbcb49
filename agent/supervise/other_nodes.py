# SPDX-License-Identifier: Apache-2.0
"""Other nodes that run on this host, as their run folders tell everybody.

Invariant: what others wrote is read as hostile input, and only a folder's owner is believed about
the node in it, whose supervisor must run as that owner.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
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
"""Run folders that are looked into."""
_ROOTS = (("/run/stoker", "*"), ("/run/user", "*/stoker/*"), ("/tmp", "stoker-*/*"))

BESIDE = "`stoker up --beside`, or --state DIR"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OtherNode:
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
        """How this user reaches it."""
        if self.is_mine:
            return f"export STOKER_STATE={self.root}"
        return f"{user_name(self.uid)} gives out keys: stoker user add {_me()}"


def _me() -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())


def running(but: StateFolder) -> list[OtherNode]:
    """All of them but the node of this folder; those of root first, then this user's."""
    found = [each for folder in _folders(but) if (each := _look(folder)) is not None]
    return sorted(found, key=lambda each: (each.uid != 0, not each.is_mine, each.root))


def check(where: StateFolder, *, wanted: bool) -> list[OtherNode]:
    """Those that a second node starts beside; Refused where nobody said that one is wanted and
    root's node or this user's runs. Nodes of other users forbid nobody anything."""
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
    known = _read(folder / "pids.json", pids.Pids)
    if endpoint is None or known is None or endpoint[1] != known[1]:
        return None
    if known[0].boot_id != boot_id() or not _runs(known[0], uid := known[1]):
        return None
    named = endpoint[0].url, endpoint[0].state
    return OtherNode(uid, *named) if all(each.isprintable() for each in named) else None


def _runs(known: pids.Pids, uid: int) -> bool:
    """Whether its supervisor lives, and is of that user."""
    process = known.processes.get(pids.SUPERVISOR)
    if process is None or not pids.lives(process):
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process.pid}").stat().st_uid == uid
    return False


def _read(path: Path, kind: type[T]) -> tuple[T, int] | None:
    """(record, uid of its file); None where there is none, or what is there is no such file."""
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
