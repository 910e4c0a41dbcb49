# SPDX-License-Identifier: Apache-2.0
"""Reload a running broker's configuration without dropping the connections of keys that stay.

Owns two facts of nats-server 2.15. It says in its log when it has taken a configuration; by then
the connections of keys that are gone are cut. An account that is new at a reload gets its imports
only at the next reload (configureAccounts starts them "only if not reloading"), so a new user needs
two SIGHUPs, the second after the first is done.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import nats
import nats.errors
from nats.aio.client import Client as Connection

from stoker.mesh.identity import certificate
from stoker.native.errors import Unavailable

STEP_S = 0.05
_TAKEN, _REFUSED = b"Reloaded server configuration", b"Failed to reload"
PATIENCE_S = 5.0


def reload(pid: int, log: Path) -> None:
    """Have the broker take its configuration, and return once it has; `log` is its log file.

    Raises Unavailable if it does not; it then keeps the old one.
    """
    at = log.stat().st_size if log.exists() else 0
    os.kill(pid, signal.SIGHUP)
    deadline = time.monotonic() + PATIENCE_S
    said = b""
    while time.monotonic() < deadline:
        said = _since(log, at)
        if _TAKEN in said:
            return
        if _REFUSED in said:
            break
        time.sleep(STEP_S / 5)
    raise Unavailable("the broker did not take its configuration: its log says why", hint=str(log))


def _since(log: Path, at: int) -> bytes:
    """Return what a log file has beyond `at`; all of it if it was emptied meanwhile."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(at if at <= size else 0)
        return file.read()


async def add_account(pid: int, url: str, seed_file: Path, pinned: Path) -> None:
    """Reload the new configuration so that this key's requests reach the scheduler.

    `pinned` is the broker's certificate. Raises Unavailable if the broker does not take the
    configuration; it then keeps the old one.
    """
    os.kill(pid, signal.SIGHUP)
    await (await _connected(url, seed_file, pinned)).close()
    # The first reload is done now; two signals before that would become one. The broker may end
    # connections of before the second one, so that a new one says whether it was taken.
    os.kill(pid, signal.SIGHUP)
    await asyncio.sleep(2 * STEP_S)
    await (await _connected(url, seed_file, pinned)).close()


async def _connected(url: str, seed_file: Path, pinned: Path) -> Connection:
    secured = certificate.connecting(pinned)
    for _ in range(int(PATIENCE_S / STEP_S)):
        await asyncio.sleep(STEP_S)
        try:
            return await nats.connect(
                url,
                nkeys_seed=str(seed_file),
                allow_reconnect=False,
                max_reconnect_attempts=0,
                connect_timeout=1,
                error_cb=_ignore,
                **secured,
            )
        except (nats.errors.Error, OSError, TimeoutError):
            continue
    raise Unavailable("the broker did not take the new user: its log says why")


async def _ignore(error: Exception) -> None:
    """Ignore refusals, which are expected before the reload."""
