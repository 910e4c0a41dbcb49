# SPDX-License-Identifier: Apache-2.0
"""`<state>/lock`: one supervisor per state folder, whatever was killed.

The lock is flock(2) on an open file that `up` hands to the supervisor, so that there is no moment
without a holder; it ends with the holder's last breath.
"""

from __future__ import annotations

import fcntl
import os
import time

from stoker.agent.state.state_folder import StateFolder

RETRY_S = 0.2
"""`holder` and another `down` have the lock for moments only."""


def take(state: StateFolder) -> int | None:
    """The lock as a descriptor, with this pid in it; None when somebody else has it."""
    handle = os.open(state.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    deadline = time.monotonic() + RETRY_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.01)
                continue
            os.close(handle)
            return None
        sign(handle)
        return handle


def sign(handle: int) -> None:
    """Writes this pid into the lock that this process holds."""
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)


def holder(state: StateFolder) -> int | None:
    """Pid of whoever has the lock (0: it wrote none); None when it is free."""
    try:
        handle = os.open(state.lock, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(handle, 32, 0).strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(handle)
    return None
