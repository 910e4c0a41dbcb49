# SPDX-License-Identifier: Apache-2.0
"""The ring goes back once, after its time without a job, and again after the next job."""

from stoker.agent.tracing.ring_return import IDLE_S, RingReturn


class Ring:
    def __init__(self, *, has_span_ring: bool = True) -> None:
        self.has_span_ring = has_span_ring
        self.empty = True
        self.rests = 0

    def rest(self) -> None:
        self.rests += 1
        self.has_span_ring = not self.empty


def test_a_ring_that_was_never_made_is_not_looked_at() -> None:
    idle, ring = RingReturn(), Ring(has_span_ring=False)
    assert idle.look(ring, used=False, now_s=0.0) is None
    assert idle.look(ring, used=False, now_s=IDLE_S * 2) is None
    assert ring.rests == 0


def test_it_goes_back_after_its_time_without_a_job_and_only_once() -> None:
    idle, ring = RingReturn(), Ring()
    assert idle.look(ring, used=True, now_s=1.0) is None
    assert idle.look(ring, used=False, now_s=2.0) == IDLE_S
    assert idle.look(ring, used=False, now_s=12.0) == IDLE_S - 10
    assert ring.rests == 0
    assert idle.look(ring, used=False, now_s=2.0 + IDLE_S) is None
    assert idle.look(ring, used=False, now_s=3.0 + IDLE_S) is None
    assert ring.rests == 1


def test_a_job_in_between_begins_the_time_anew() -> None:
    idle, ring = RingReturn(), Ring()
    idle.look(ring, used=False, now_s=1.0)
    idle.look(ring, used=True, now_s=20.0)
    assert idle.look(ring, used=False, now_s=40.0) == IDLE_S
    assert ring.rests == 0


def test_a_ring_with_records_is_looked_at_again() -> None:
    idle, ring = RingReturn(), Ring()
    ring.empty = False
    idle.look(ring, used=False, now_s=1.0)
    assert idle.look(ring, used=False, now_s=1.0 + IDLE_S) == IDLE_S
    ring.empty = True
    assert idle.look(ring, used=False, now_s=1.0 + 2 * IDLE_S) is None
    assert ring.rests == 2


def test_without_host_probes_there_is_nothing_to_give_back() -> None:
    idle = RingReturn()
    assert idle.look(None, used=False, now_s=0.0) is None
    assert idle.look(None, used=False, now_s=IDLE_S * 3) is None
