# SPDX-License-Identifier: Apache-2.0
"""The file of the table of users, watched for changes.

Guarantees that a damaged table leaves the old one in force.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from stoker.mesh.broker import users
from stoker.mesh.server.service import Service
from stoker.native.errors import StokerError

log = structlog.get_logger("scheduler")


class UsersFile:
    """The users.json of one state folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None

    def refresh(self, service: Service) -> None:
        """Give the service the table if the file has changed."""
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            service.users = users.load(self._path)
            service.owners.clear()
            log.info("table of users read", count=len(service.users))
        except (StokerError, OSError) as error:
            log.error("the table of users cannot be read", error=str(error))
