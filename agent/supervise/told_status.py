# SPDX-License-Identifier: Apache-2.0
"""The newest line that the supervisor's log has of one process, for whoever asks while it runs.

It reads the end of the log file alone. Owns that a log which says nothing is told from one that
says that all is well.
"""

from __future__ import annotations

import msgspec

from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import log_rotation, pids

LINES = 400
BYTES = 1 << 16


class LoggedLine(msgspec.Struct, frozen=True):
    """One line of the supervisor's log."""

    process: str
    event: str


def newest(where: StateFolder, process: str) -> str:
    """Return what was logged last of a process; empty if the end of the log has nothing of it."""
    log = where.log / f"{pids.SUPERVISOR}.log"
    for line in reversed(log_rotation.tail(log, LINES, BYTES)):
        try:
            found = msgspec.json.decode(line, type=LoggedLine)
        except (msgspec.MsgspecError, ValueError):
            continue  # the first line of the end may be cut
        if found.process == process:
            return found.event
    return ""
