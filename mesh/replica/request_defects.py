# SPDX-License-Identifier: Apache-2.0
"""Defects that a user's request meets: each is that request's answer and never the daemon's end.

The scheduler's process answers with what `met` returns. A traceback is logged the first time it is
seen, later ones are counted, so that a request that is repeated does not fill the log.
"""

from __future__ import annotations

import traceback
from collections import Counter

import structlog

from stoker.native.errors import Internal

PLACES_MAX = 256
"""Places in the code that are told apart; defects at further ones are counted without a log."""

_log = structlog.get_logger("scheduler")


class Defects:
    """What went wrong where it should not have. `counts`: place -> how often."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def met(self, error: BaseException, request: str) -> Internal:
        """The answer to the request that met this defect; nothing was changed by it."""
        place = _place(error)
        if place not in self.counts and len(self.counts) < PLACES_MAX:
            _log.error("a request met a defect", request=request, exc_info=error)
        if place in self.counts or len(self.counts) < PLACES_MAX:
            self.counts[place] += 1
        return answer(error)


def answer(error: BaseException) -> Internal:
    """What a user is told of a defect; it remembers its cause for the log."""
    told = Internal(
        f"the request met a defect of stoker ({type(error).__name__}); nothing was changed by it",
        hint="the scheduler's log has its traceback: please report it",
    )
    told.__cause__ = error
    return told


def _place(error: BaseException) -> str:
    """Kind and innermost line: what makes two defects the same one."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "nowhere"
    return f"{type(error).__name__} at {where}"
