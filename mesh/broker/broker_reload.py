# SPDX-License-Identifier: Apache-2.0
"""Reload a running broker's configuration without dropping the connections of keys that stay.

Owns two facts of nats-server 2.15. It says in its log when it has taken a configuration; by then
the connections of keys that are gone are cut. An account that is new at a reload gets its imports
only at the next reload (configureAccounts starts them "only if not reloading"), so a new user needs
two SIGHUPs, the second after the first is done.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from stoker.native.errors import Unavailable

STEP_S = 0.01
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
        time.sleep(STEP_S)
    raise Unavailable("the broker did not take its configuration: its log says why", hint=str(log))


def _since(log: Path, at: int) -> bytes:
    """Return what a log file has beyond `at`; all of it if it was emptied meanwhile."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(at if at <= size else 0)
        return file.read()


def add_account(pid: int, log: Path) -> None:
    """Have the broker take a configuration with a new user, whose requests then reach the
    scheduler.

    Raises Unavailable if it does not; it then keeps the old one.
    """
    reload(pid, log)
    reload(pid, log)
