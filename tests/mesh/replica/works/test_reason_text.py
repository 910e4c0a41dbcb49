# SPDX-License-Identifier: Apache-2.0
"""The sentences of reasons, with names of queues and labels."""

from __future__ import annotations

import pytest

from stoker.mesh.replica.works import reason_text
from stoker.mesh.server import explanation
from stoker.scheduler.book import Book
from stoker.scheduler.names import name_id, queue_id
from stoker.scheduler.reasons import Reason
from stoker.scheduler.remedies import Remedy

NS = 1_000_000_000


@pytest.mark.parametrize(
    ("ns", "says"),
    [
        (-5, "0 s"),
        (1, "1 s"),
        (59 * NS, "59 s"),
        (185 * NS, "3 min 5 s"),
        (7810 * NS, "2 h 10 min"),
    ],
)
def test_spans(ns: int, says: str) -> None:
    assert reason_text.span(ns) == says


def test_a_queue_is_named() -> None:
    book = Book()
    book.queues[queue_id("prod")] = "prod"
    said = reason_text.words(book, Reason.QUEUE_AT_LIMIT, job=queue_id("prod"), asked=700, have=500)
    assert "prod" in said and str(queue_id("prod")) not in said
    assert "default" in reason_text.words(book, Reason.OVER_LIMIT, job=0, asked=7, have=5)
    gone = reason_text.words(book, Reason.QUEUE_NOT_LEAF, asked=queue_id("gone"))
    assert f"queue-{queue_id('gone'):x}" in gone


def test_a_taint_in_the_way_is_named() -> None:
    book = Book()
    book.named(["team=x"])
    taint = name_id("team=x")
    said = reason_text.words(book, Reason.NEEDS_TOLERATION, asked=taint, count=2)
    assert said.endswith("does not tolerate: 2 (team=x)")
    assert reason_text.words(book, Reason.NEEDS_TOLERATION, asked=5, count=2).endswith(": 2")


def test_a_moment_to_come_is_a_span() -> None:
    said = reason_text.words(Book(), Reason.WAITS_UNTIL, have=1_000 * NS, now_ns=995 * NS)
    assert said == "waits 5 s until its next attempt"


def test_every_remedy_has_words() -> None:
    assert set(explanation.HELPS) == set(Remedy)
