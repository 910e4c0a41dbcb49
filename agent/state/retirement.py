# SPDX-License-Identifier: Apache-2.0
"""The record that a server was retired: a survivor's backup was taken here, and a cluster may have
been begun with it elsewhere.

Owns the rule that a retired folder starts no more, so that its scheduler votes for nobody and its
broker keeps no copy of the log: no lost server that comes back can make a majority with it.
"""

from __future__ import annotations

import time

import msgspec

from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.mesh.identity import sealed_json
from stoker.native import durable_file
from stoker.native.errors import Refused

FILE = "retired.json"


class Retirement(msgspec.Struct, frozen=True):
    """The content of the file."""

    made_ns: int
    """The time of the backup (CLOCK_REALTIME)."""
    backup: str
    """The path of the backup."""
    entry: int
    """The last entry of the log that is in it."""


def retire(where: StateFolder, found: Retirement) -> None:
    """Record durably that this server starts no more; a later record replaces an earlier one."""
    durable_file.replace(where.root / FILE, sealed_json.encode(found))


def check(where: StateFolder) -> None:
    """Refuse a folder that is retired; Corrupt if the record cannot be read."""
    path = where.root / FILE
    if not path.exists():
        return
    found = state_folder.read_json(path, Retirement)
    day = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.made_ns / 1e9))
    raise Refused(
        f"the server in {where.root} is retired: its state up to entry {found.entry} went into"
        f" {found.backup} on {day}, for a cluster that begins anew",
        hint=f"`stoker cluster restore` begins that one in another folder. Only if nothing was"
        f" restored and the others are back: remove {path}",
    )
