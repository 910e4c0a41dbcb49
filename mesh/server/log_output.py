# SPDX-License-Identifier: Apache-2.0
"""A daemon's log on its standard error, which may be a file on a full disk.

Owns the rule that a line which cannot be written is counted and never an error of the one who
wanted to say something: a scheduler whose warning about the full disk raised an exception forgot
the append that the warning was about, and never appended again.
"""

from __future__ import annotations

import os

import structlog


class LogLines:
    """What structlog writes to: whole lines, one call for each."""

    def __init__(self, descriptor: int = 2) -> None:
        self.lost = 0
        """Lines not written, or not to their end, since one last was."""
        self._descriptor = descriptor
        self._torn = False

    def write(self, text: str) -> int:
        """Try to write a line; the first after lost ones says how many they were."""
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
        """Nothing is kept back."""


def configure_logging() -> None:
    """JSON lines with level and UTC time; exceptions as one field. For `main` of a daemon alone:
    modules log through structlog and configure nothing."""
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
