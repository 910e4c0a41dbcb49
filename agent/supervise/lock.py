# SPDX-License-Identifier: Apache-2.0
"""`<state>/lock`: one supervisor per state folder, even after kills.

The lock is flock(2) on an open file that `up` passes to the supervisor, so it is held without a
gap; the kernel releases it when its holder ends.
"""

from __future__ import annotations

import fcntl
import os
import time

from stoker.agent.state.state_folder import StateFolder

RETRY_S = 0.2
"""Seconds to retry, since `holder` and another `down` have the lock for moments only."""


def take(state: StateFolder) -> int | None:
    """Return the lock as a descriptor, with this pid in the file; None if it is taken."""
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
    """Write this pid into the lock that this process holds."""
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)


def holder(state: StateFolder) -> int | None:
    """Return the pid of the lock's holder (0 if it wrote none); None if the lock is free."""
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
