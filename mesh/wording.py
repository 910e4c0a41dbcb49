# SPDX-License-Identifier: Apache-2.0
"""The core's reasons as sentences in which queues, jobs and moments have names people use.

Relied on by work and views. Pure. Owns which figure of which reason is the id of a queue, of a
label, or a moment; everything else is said by `scheduler/reasons.py`.
"""

from __future__ import annotations

from typing import Any

from stoker.scheduler.book import Book
from stoker.scheduler.reasons import Reason, sentence

_QUEUE_IN_JOB = frozenset({Reason.OVER_LIMIT, Reason.QUEUE_AT_LIMIT, Reason.QUEUE_TURN})
_QUEUE_IN_ASKED = frozenset({Reason.UNKNOWN_QUEUE, Reason.QUEUE_NOT_LEAF})
_NAME_IN_ASKED = frozenset(
    {
        Reason.NEEDS_TOLERATION,
        Reason.NEEDS_LABELS,
        Reason.NO_NODE_HAS_LABELS,
        Reason.NO_NODE_HAS_MODEL,
    }
)
"""`asked` is the id of one label, taint or model that is in the way."""
_MOMENT: dict[int, str] = {
    Reason.WAITS_UNTIL: "waits {wait} until its next attempt",
    Reason.EXPECTED_START: "expected to start in {wait}",
}
NS = 1_000_000_000


def words(
    book: Book,
    reason: int,
    *,
    asked: int = 0,
    have: int = 0,
    job: int = 0,
    node: str = "",
    count: int = 0,
    now_ns: int = 0,
) -> str:
    """One sentence without a full stop; `now_ns`: CLOCK_REALTIME, for moments to come."""
    if reason in _MOMENT and now_ns:
        return _MOMENT[reason].format(wait=span(have - now_ns))
    figures: dict[str, Any] = {"asked": asked, "have": have, "job": job, "node": node}
    if reason in _QUEUE_IN_JOB:
        figures["job"] = book.queue_name(job)
    elif reason in _QUEUE_IN_ASKED:
        figures["asked"] = book.queue_name(asked)
    text = sentence(reason, **figures, count=count)
    name = book.word(asked) if reason in _NAME_IN_ASKED else ""
    return f"{text} ({name})" if name else text


def span(ns: int) -> str:
    """How long, to the second: "12 s", "3 min 5 s", "2 h 10 min"; what is past is 0 s."""
    seconds = max(0, -(-ns // NS))
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"
