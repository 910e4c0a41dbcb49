# SPDX-License-Identifier: Apache-2.0
"""The nodes' keys that a broker does not take for a while, as notes in its configuration.

Owns that a key comes back only where the tables had it when the configuration was written last:
its row is made a comment and a row again, and never made anew. Whoever writes the whole file
meanwhile lets the key in early, which does no harm: a flood is found again.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from stoker.mesh.wire.subjects import PREFIX
from stoker.native import durable_file, folder_lock

_NOTE = "# kept out: "
_ROW = re.compile(
    rf'^( *)(?:{_NOTE})?(\{{ nkey: (\w+), .*"{re.escape(PREFIX)}\.node\.([^."]+)\.hello".*)$',
    re.MULTILINE,
)
"""The row of a node, as `broker_config` writes it, with or without the note."""


def nodes_of_keys(configuration: str) -> dict[str, str]:
    """Return the node, as a token of subjects, of each node's key in a nats-server.conf."""
    return {row[3]: row[4] for row in _ROW.finditer(configuration)}


def noted(configuration: str, keys: Collection[str]) -> str:
    """Return a nats-server.conf that takes all its nodes' keys but these."""
    return _ROW.sub(lambda row: f"{row[1]}{_NOTE if row[3] in keys else ''}{row[2]}", configuration)


def read(state: Path) -> str:
    """Return the configuration of the broker with this state folder."""
    return _path(state).read_text()


def write(state: Path, keys: Collection[str]) -> bool:
    """Have the configuration keep these keys out and no others; return True if that is new."""
    with folder_lock.held(state):  # as all do who change users and keys
        was = read(state)
        now = noted(was, keys)
        if now != was:
            durable_file.replace(_path(state), now.encode())
    return now != was


def _path(state: Path) -> Path:
    return state / "nats" / "nats-server.conf"
