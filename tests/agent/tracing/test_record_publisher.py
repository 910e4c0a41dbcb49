# SPDX-License-Identifier: Apache-2.0
"""A window publishes every record once and in order, or counts it as dropped."""

from __future__ import annotations

from typing import Any

from stoker.agent.tracing import record_publisher
from stoker.agent.tracing.record_publisher import Allowance, Publication, RecordTarget
from stoker.probes.kernels import record_batches
from stoker.probes.kernels.job_trace import TimeWindow, TraceSummary
from stoker.probes.kernels.record_batches import Envelope
from stoker.scheduler.nouns import TaskKey

S = 1_000_000_000


class Fold:
    """A fold that keeps its newest `kept` records; record n is 64 bytes that say n."""

    def __init__(self, kept: int = 1000) -> None:
        self.total, self.kept = 0, kept

    def events(self, first: int, most: int) -> tuple[int, int, bytes]:
        first = min(max(first, self.total - self.kept, 0), self.total)
        count = min(self.total - first, most)
        return (
            first,
            self.total,
            b"".join(n.to_bytes(64, "little") for n in range(first, first + count)),
        )

    def names(self) -> list[str]:
        return ["(other)", "k"]

    def summary(self) -> TraceSummary:
        return TraceSummary("full", TimeWindow(0, 1))


def started(fold: Any, per_s: int = 10**9) -> tuple[Publication, list[Envelope]]:
    sent: list[Envelope] = []

    def send(subject: str, data: bytes) -> None:
        assert subject == "stoker.v1.records.alice.n.7"
        assert len(data) <= record_batches.ENVELOPE_BYTES_MAX
        sent.append(record_batches.decode(data)[0])

    place = RecordTarget("n", TaskKey(7, 1, 3), 5, "alice")
    return Publication(place, fold, send, Allowance(per_s)), sent


def numbers(sent: list[Envelope]) -> list[int]:
    return [
        int.from_bytes(each.data[at : at + 64], "little")
        for each in sent
        if each.what == "events"
        for at in range(0, len(each.data), 64)
    ]


def test_every_record_of_the_window_goes_out_once() -> None:
    fold = Fold(10_000)
    fold.total = 33  # records from before the window
    publication, sent = started(fold)
    for step in range(1, 6):
        fold.total += 997
        publication.drained(step * S // 10)
    fold.total += 5
    publication.end(S)
    assert numbers(sent) == list(range(33, 33 + 5 * 997 + 5))
    assert [each.sequence for each in sent] == list(range(len(sent)))
    assert {(each.job, each.attempt, each.task) for each in sent} == {(7, 1, 3)}
    assert (publication.published, publication.dropped) == (5 * 997 + 5, 0)
    assert sent[-1].what == "end" and sent[-1].count == 0


def test_a_large_batch_is_split() -> None:
    fold = Fold(100_000)
    publication, sent = started(fold)
    fold.total = 2 * record_batches.BATCH_MAX + 1
    publication.drained(S)
    assert [each.count for each in sent if each.what == "events"] == [2048, 2048, 1]


def test_records_beyond_the_rate_are_counted_and_never_sent_late() -> None:
    fold = Fold(10_000)
    publication, sent = started(fold, per_s=1000)
    for step in range(1, 21):
        fold.total += 500
        publication.drained(step * S // 10)
    publication.end(2 * S)
    assert publication.published + publication.dropped == fold.total
    assert 1900 <= publication.published <= 2400
    assert sent[-1].dropped == publication.dropped
    assert numbers(sent) == sorted(set(numbers(sent)))


def test_records_that_were_overwritten_meanwhile_are_counted() -> None:
    fold = Fold(kept=100)
    publication, sent = started(fold)
    fold.total = 350
    publication.drained(S)
    assert numbers(sent) == list(range(250, 350))
    assert (publication.published, publication.dropped) == (100, 250)


def test_rows_go_out_once_a_second() -> None:
    publication, sent = started(Fold())
    for step in range(1, 31):
        publication.drained(step * S // 10)
    assert [each.what for each in sent].count("rows") in (3, 4)


def test_what_all_jobs_may_send_is_one_allowance() -> None:
    allowance = Allowance(record_publisher.RECORDS_PER_S_MAX)
    got = [allowance.take(10**6, 1 + step * S // 100) for step in range(100)]
    assert sum(got) <= record_publisher.RECORDS_PER_S_MAX * 1.21
