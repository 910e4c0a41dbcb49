# SPDX-License-Identifier: Apache-2.0
"""The log of a daemon: one JSON object a line on stderr, where the supervisor keeps it.

Relied on by daemons' `main` alone; modules log through structlog and configure nothing.
"""

from __future__ import annotations

import sys

import structlog


def configure_logging() -> None:
    """JSON lines with level and UTC time; exceptions as one field."""
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
