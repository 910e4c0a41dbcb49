# SPDX-License-Identifier: Apache-2.0
"""The file of the table of users, watched for changes that the leader then logs.

Guarantees that a damaged table leaves the old accounts in force.
"""

from __future__ import annotations

from pathlib import Path

from stoker.mesh.broker import users
from stoker.native.errors import StokerError
from stoker.native.structured_log import structlog
from stoker.scheduler.nouns import Account

log = structlog.get_logger("scheduler")

LOOK_UP_NS = 10_000_000_000
"""Period of looking up the Unix identities of users, whose groups may change."""


class UsersFile:
    """The users.json of one state folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._table: users.Users = {}
        self._due_ns = 0

    def is_due(self, now_ns: int) -> bool:
        """True if the file has changed, or LOOK_UP_NS have passed since it was last true."""
        changed = self._refresh()
        if not changed and (now_ns < self._due_ns or self._stamp is None):
            return False
        self._due_ns = now_ns + LOOK_UP_NS
        return True

    def accounts(self) -> dict[str, Account]:
        """Return all accounts; a slow directory of users may keep the caller waiting."""
        return users.accounts(self._table)

    def _refresh(self) -> bool:
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
            if stamp == self._stamp:
                return False
            self._table = users.load(self._path)
        except (StokerError, OSError) as error:
            log.error("the table of users cannot be read", error=str(error))
            return False
        self._stamp = stamp
        log.info("table of users read", count=len(self._table))
        return True
