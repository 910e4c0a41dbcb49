# SPDX-License-Identifier: Apache-2.0
"""A local user without a key who waits until a port is free (runs `squatter_program.py`)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stoker.mesh.broker.broker_program import broker_program
from tests.fakes import pinned

PROGRAM = Path(__file__).with_name("squatter_program.py")
UID = 4242
"""Uid of the attacker, a user without a name and without files."""
TLS_HANDSHAKE = b"\x16"
"""First byte of a TLS record with a ClientHello (RFC 8446, 5.1)."""


def told_nothing(said: bytes) -> bool:
    """True if a connection revealed nothing: it ended, or began a handshake."""
    return said[:1] in (b"", TLS_HANDSHAKE)


class Squatter:
    """The attacker's process; `folder` belongs to the attacker."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process, self.folder = process, folder

    def wait_bound(self) -> None:
        """Wait until the attacker's process listens on the port."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "bound\n"

    def order(self, word: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def heard(self) -> list[bytes]:
        """First bytes that each connection sent after the attacker's greeting."""
        return [bytes.fromhex(data) for data in json.loads(self.order("heard"))]


@contextmanager
def squatter(port: int, victim: str = "root") -> Iterator[Squatter]:
    """Run the attacker, who tries to take the port in a tight loop; all its processes are killed at
    the end."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-squatter-", dir="/tmp"))
    script = shutil.copy(PROGRAM, folder / "squatter.py")
    server = shutil.copy(broker_program(), folder / "nats-server")
    pinned.pair(folder)
    for path in (folder, *folder.iterdir()):
        os.chown(path, UID, UID)
    process = subprocess.Popen(
        ["/usr/bin/python3", script, str(port), str(server), str(folder), victim],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
        user=UID, group=UID, extra_groups=[], start_new_session=True,
    )  # fmt: skip
    try:
        yield Squatter(process, folder)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()
        shutil.rmtree(folder)
