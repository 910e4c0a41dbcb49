# SPDX-License-Identifier: Apache-2.0
"""A daemon's log lines on its standard error, which may be a file on a full disk.

Owns the rule that a line that cannot be written is counted and raises nothing, so that logging
never breaks the work that it reports.
"""

from __future__ import annotations

import os

from stoker.native.structured_log import structlog


class LogLines:
    """The file that structlog writes whole lines to, with one call for each line."""

    def __init__(self, descriptor: int = 2) -> None:
        self.lost = 0
        """The number of lines not written, or not completely, since the last written one."""
        self._descriptor = descriptor
        self._torn = False

    def write(self, text: str) -> int:
        """Try to write a line; the first one after lost lines says how many were lost."""
        data = text.encode(errors="backslashreplace")
        if self.lost:
            data = b'{"event": "log lines were lost", "count": %d}\n' % self.lost + data
        if self._torn:
            data = b"\n" + data
        try:
            written = os.write(self._descriptor, data)
        except OSError:
            written = 0
        whole = written == len(data)
        self._torn = not whole and (written > 0 or self._torn)
        self.lost = 0 if whole else self.lost + 1
        return len(text)

    def flush(self) -> None:
        """Do nothing: no line is buffered."""


def configure_logging() -> None:
    """Configure structlog: JSON lines with level and UTC time, exceptions as one field.

    Only `main` of a daemon calls this; modules configure nothing.
    """
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=LogLines()),  # type: ignore[arg-type]
        cache_logger_on_first_use=True,
    )
