# SPDX-License-Identifier: Apache-2.0
"""The simulated stream takes a number once, and each of its weaknesses does what its name says."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stoker.mesh.log.jetstream_log import LogFull, LogGap, OutcomeUnknown, WrongTail, appended
from stoker.mesh.sim.model_stream import NO_LEADER, AppendCall, ModelStream, ReadCall, TrimCall
from stoker.mesh.sim.network import NO_FAULTS, SimNetwork
from stoker.mesh.sim.story import Story
from stoker.mesh.sim.stream_faults import MOST, SINGLE, StreamFaults, drawn
from stoker.mesh.sim.timeline import SECOND, Timeline


class Stream:
    """A stream and a client of it."""

    def __init__(self, servers: int = 3, max_bytes: int = 1000, **faults: float) -> None:
        self.timeline = Timeline()
        chance = random.Random(5)
        self.network = SimNetwork(self.timeline, chance, NO_FAULTS)
        self.model = ModelStream(
            self.timeline,
            chance,
            self.network,
            Story(self.timeline),
            servers=servers,
            faults=StreamFaults(**faults),
            max_bytes=max_bytes,
        )
        self.number = 0

    def append(self, tail: int, data: bytes = b"entry", server: int = 0) -> bytes | None:
        """The answer, or None if there is none at once."""
        answers: list[bytes] = []
        self.number += 1
        name = f"name-{self.number}"
        self.model.append(AppendCall(server, tail, data, name, answers.append))
        return answers[0] if answers else None

    def taken(self, tail: int, data: bytes = b"entry", server: int = 0) -> int:
        answer = self.append(tail, data, server)
        assert answer is not None
        return appended(tail, answer)

    def read(self, seq: int = 1, server: int = 0) -> tuple[list[tuple[int, bytes]], str | None]:
        answers: list[Any] = []
        self.model.read(ReadCall(server, seq, answers.append))
        found: tuple[list[tuple[int, bytes]], str | None] = answers[0]
        return found

    def elected(self) -> None:
        self.model.elect()
        while self.model.leader == NO_LEADER:
            self.timeline.run(self.timeline.now + SECOND)


def test_a_number_is_taken_once_and_size_follows() -> None:
    stream = Stream()
    assert stream.taken(0, b"first") == 1
    assert stream.taken(1, b"second", server=2) == 2
    with pytest.raises(WrongTail) as refused:
        stream.taken(1)
    assert refused.value.last == 2
    with pytest.raises(LogFull):
        stream.taken(2, bytes(1000))
    assert stream.read(server=1) == ([(1, b"first"), (2, b"second")], None)
    assert stream.model.size == 11
    trimmed: list[bool] = []
    stream.model.trim(TrimCall(0, 1, trimmed.append))
    assert trimmed == [True] and stream.model.size == 6
    assert stream.read() == ([(2, b"second")], None)
    assert stream.taken(2, b"third") == 3


def test_a_repeated_name_is_stored_once() -> None:
    stream = Stream()
    answers: list[bytes] = []
    call = AppendCall(0, 0, b"entry", "same", answers.append)
    stream.model.append(call)
    stream.model.append(call)
    assert stream.model.last == 1 and answers[0] == answers[1]


def test_lost_answers_leave_an_entry_or_none() -> None:
    stored = Stream(ack_lost=1.0)
    assert stored.append(0) is None and stored.model.last == 1
    lost = Stream(append_lost=1.0)
    assert lost.append(0) is None and lost.model.last == 0


def test_a_late_append_lands_only_if_its_number_is_free() -> None:
    stream = Stream(late=1.0)
    assert stream.append(0, b"late") is None and stream.model.last == 0
    stream.model.faults = StreamFaults()
    stream.timeline.run(30 * SECOND)
    assert stream.read() == ([(1, b"late")], None)
    stream.model.faults = StreamFaults(late=1.0)
    stream.append(1, b"too late")
    stream.model.faults = StreamFaults()
    assert stream.taken(1, b"second") == 2
    stream.timeline.run(60 * SECOND)
    assert [data for _, data in stream.read()[0]] == [b"late", b"second"]


def test_a_forced_append_is_stored_behind_what_it_did_not_expect() -> None:
    stream = Stream(late=1.0)
    stream.append(0, b"forced")
    stream.model.faults = StreamFaults(forced=1.0)
    assert stream.taken(0, b"first") == 1
    stream.timeline.run(30 * SECOND)
    assert stream.read() == ([(1, b"first"), (2, b"forced")], None)


def test_a_hole_is_counted_and_cannot_be_read() -> None:
    stream = Stream(hole=1.0)
    assert stream.append(0) is None
    stream.model.faults = StreamFaults()
    assert stream.taken(1, b"behind") == 2
    assert stream.read() == ([(2, b"behind")], None)


def test_an_entry_may_be_stored_twice_and_a_reading_may_end_early() -> None:
    stream = Stream(twice=1.0)
    assert stream.taken(0) == 1 and stream.model.last == 2
    stream.model.faults = StreamFaults(read_failed=1.0)
    entries, failed = stream.read()
    assert len(entries) == 1 and failed


def test_an_election_takes_seconds_in_which_nothing_is_appended() -> None:
    stream = Stream()
    stream.model.elect()
    answers = [stream.append(0) for _ in range(40)]
    assert None in answers
    for answer in filter(None, answers):
        with pytest.raises(OutcomeUnknown):
            appended(0, answer)
    stream.timeline.run(4 * SECOND - 1)
    assert stream.model.leader == NO_LEADER
    stream.timeline.run(17 * SECOND)
    assert stream.taken(0) == 1


def test_an_election_may_lose_what_was_acknowledged() -> None:
    stream = Stream(lost_tail=1.0)
    for tail in range(10):
        assert stream.taken(tail) == tail + 1
    stream.elected()
    assert 7 <= stream.model.last < 10
    assert stream.model.size == 5 * stream.model.last
    deleted = Stream(deleted=1.0)
    assert deleted.taken(0) == 1
    deleted.elected()
    assert (deleted.model.last, deleted.model.size) == (0, 0)
    assert deleted.taken(0) == 1


def test_a_deposed_leader_acknowledges_and_answers_from_its_own_copy() -> None:
    stream = Stream(deposed=1.0)
    old = stream.model.leader
    assert stream.taken(0, b"agreed") == 1
    stream.model.elect()
    assert stream.taken(1, b"its own", server=old) == 2
    assert stream.read(server=old)[0] == [(1, b"agreed"), (2, b"its own")]
    with pytest.raises(LogGap):
        stream.taken(90, server=old)
    stream.timeline.run(60 * SECOND)
    assert stream.read(server=old)[0] == [(1, b"agreed")]


def test_a_copy_that_stands_still_follows_again() -> None:
    stream = Stream()
    assert stream.taken(0) == 1
    stream.model.stand_still(2, SECOND)
    assert stream.taken(1) == 2
    assert [seq for seq, _ in stream.read(server=2)[0]] == [1]
    stream.timeline.run(2 * SECOND)
    assert [seq for seq, _ in stream.read(server=2)[0]] == [1, 2]


def test_a_server_that_is_down_answers_nothing() -> None:
    stream = Stream(servers=1)
    stream.model.crash(0)
    assert stream.append(0) is None and stream.model.last == 0
    stream.model.restart(0)
    assert stream.taken(0) == 1


def test_a_single_server_has_no_weakness_that_needs_a_second() -> None:
    for seed in range(50):
        faults = drawn(random.Random(seed), 1)
        assert all(value == 0.0 or name in SINGLE for name, value in faults._asdict().items())
        assert all(low <= most for low, most in zip(faults, MOST, strict=True))
