# SPDX-License-Identifier: Apache-2.0
"""The queue of one sink: order, tries, bounds, losses that the next change tells."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from product_node import wait_until

from stoker.agent.alerts import sink_queue as queues
from stoker.agent.alerts.alert import Alert, AlertEvent
from stoker.agent.alerts.sink_queue import SinkQueue
from stoker.agent.export.otlp_sender import Tried


def event(number: int) -> AlertEvent:
    alert = Alert(number, "hot", "hw.temperature", (), "firing", 90.0, "is hot", 1)
    return AlertEvent("node", 1, "firing", alert)


class Sink:
    """Answers what it is told to, and records what it took."""

    def __init__(self) -> None:
        self.answers: list[Tried] = []
        self.taken: list[tuple[int, int]] = []
        self.tries = 0
        self.opened = threading.Event()
        self.opened.set()

    def send(self, told: AlertEvent) -> Tried:
        self.opened.wait()
        self.tries += 1
        answer = self.answers.pop(0) if self.answers else Tried()
        if not answer.why:
            self.taken.append((told.alert.id, told.dropped))
        return answer


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Sink:
    monkeypatch.setattr(queues, "PAUSE_S", 0.0)
    return Sink()


@pytest.fixture
def queue(sink: Sink) -> Iterator[SinkQueue]:
    made = SinkQueue("webhook", sink.send)
    yield made
    sink.opened.set()
    made.close()


def test_changes_are_told_in_order_and_tried_again(queue: SinkQueue, sink: Sink) -> None:
    sink.answers = [Tried("it answered 503", True), Tried("it answered 503", True)]
    for number in (1, 2, 3):
        queue.put(event(number))
    wait_until(lambda: len(sink.taken) == 3, "three changes")
    assert sink.taken == [(1, 0), (2, 0), (3, 0)]
    wait_until(lambda: queue.counters["alert_webhook_told"] == 3, "counted")
    assert queue.counters["alert_webhook_lost"] == 0


def test_a_change_that_a_sink_does_not_want_passes_it_by(sink: Sink) -> None:
    queue = SinkQueue("cancel", sink.send, lambda told: told.alert.id == 2)
    for number in (1, 2, 3):
        queue.put(event(number))
    wait_until(lambda: queue.counters["alert_cancel_told"] == 1, "the wanted one")
    assert sink.taken == [(2, 0)]
    queue.close()


def test_a_refused_change_is_lost_and_the_next_one_says_so(queue: SinkQueue, sink: Sink) -> None:
    sink.answers = [Tried("it answered 302", False)]
    queue.put(event(1))
    wait_until(lambda: queue.counters["alert_webhook_lost"] == 1, "it is lost")
    assert sink.tries == 1
    queue.put(event(2))
    queue.put(event(3))
    wait_until(lambda: len(sink.taken) == 2, "the others")
    assert sink.taken == [(2, 1), (3, 0)]


def test_tries_have_an_end(queue: SinkQueue, sink: Sink) -> None:
    sink.answers = [Tried("it answered 503", True)] * queues.TRIES
    queue.put(event(1))
    wait_until(lambda: queue.counters["alert_webhook_lost"] == 1, "given up")
    assert sink.tries == queues.TRIES


def test_a_sink_that_hangs_delays_nobody_and_its_queue_is_bounded(
    queue: SinkQueue, sink: Sink
) -> None:
    sink.opened.clear()
    for number in range(1, queues.WAITING_MAX + 12):
        queue.put(event(number))
    wait_until(lambda: queue.counters["alert_webhook_lost"] >= 10, "the oldest are lost")
    sink.opened.set()
    made = queues.WAITING_MAX + 11
    wait_until(lambda: sink.taken[-1:] and sink.taken[-1][0] == made, "the newest is told")
    told, lost = len(sink.taken), queue.counters["alert_webhook_lost"]
    assert told + lost == made
