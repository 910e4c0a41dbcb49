# SPDX-License-Identifier: Apache-2.0
"""Defects of stoker that a user's request meets: each becomes the answer to that request.

Guarantees that a defect never ends the daemon or fills its log file: a traceback is logged the
first time it is seen, and counted later.
"""

from __future__ import annotations

import traceback
from collections import Counter

from stoker.native.errors import Internal, StokerError
from stoker.native.structured_log import structlog

PLACES_MAX = 256
"""The most places in the code that are counted and logged; defects at further ones are not."""

_log = structlog.get_logger("scheduler")


class Defects:
    """The defects met so far; `counts` has the number at each place of the code."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def met(self, error: BaseException, request: str) -> Internal:
        """Log or count a defect; return the answer to the request that met it."""
        place = _place(error)
        if place not in self.counts and len(self.counts) < PLACES_MAX:
            _log.error("a request met a defect", request=request, exc_info=error)
        if place in self.counts or len(self.counts) < PLACES_MAX:
            self.counts[place] += 1
        return answer(error)


def refusal(error: Exception) -> StokerError:
    """Return the answer to a request that raised `error`."""
    return error if isinstance(error, StokerError) else answer(error)


def answer(error: BaseException) -> Internal:
    """Return the error that a user gets for a defect; its cause is for the log."""
    internal = Internal(
        f"the request met a defect of stoker ({type(error).__name__}); nothing was changed by it",
        hint="the scheduler's log has its traceback: please report it",
    )
    internal.__cause__ = error
    return internal


def _place(error: BaseException) -> str:
    """Return kind and innermost line, which identify a defect."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "nowhere"
    return f"{type(error).__name__} at {where}"
