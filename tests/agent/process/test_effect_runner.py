# SPDX-License-Identifier: Apache-2.0
"""A batch of effects: the position first, starts merged, no stop before an earlier start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from fakes.orders import start_of

from stoker.agent.jobs import steps
from stoker.agent.process.effect_runner import EffectRunner
from stoker.mesh.wire.command import Position
from stoker.scheduler.nouns import StartJob, TaskKey


class Parts:
    """Stands for every part of the agent and records the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def store(self, position: Position) -> None:
        self.calls.append(("store", position.seq))

    def start(self, starts: Iterable[StartJob]) -> None:
        self.calls.append(("start", *(each.job for each in starts)))

    def stop(self, stop: steps.StopAttempt) -> None:
        self.calls.append(("stop", stop.key.job))

    def acknowledge(self, keys: Iterable[TaskKey]) -> None:
        self.calls.append(("acknowledge", *(key.job for key in keys)))

    def forget(self, job: int) -> None:
        self.calls.append(("forget", job))

    def note(self, text: str) -> None:
        self.calls.append(("note", text))

    def thaw(self, epoch: int, until_ns: int) -> None:
        self.calls.append(("thaw", epoch, until_ns))

    def keep_schedulers(self, keys: tuple[str, ...]) -> None:
        self.calls.append(("schedulers", *keys))

    def keep_returned(self, keys: tuple[TaskKey, ...]) -> None:
        self.calls.append(("returned", *(key.job for key in keys)))

    def begin(self, effect: steps.SendOutcomes) -> None:
        self.calls.append(("outcomes", effect.number))


def calls_of(*effects: steps.Effect) -> list[tuple[Any, ...]]:
    parts = cast(Any, Parts())
    runner = EffectRunner(
        parts,
        parts,
        parts,
        parts,
        parts,
        keep_schedulers=parts.keep_schedulers,
        keep_returned=parts.keep_returned,
    )
    runner.executor = parts
    runner.carry_out(list(effects))
    calls: list[tuple[Any, ...]] = parts.calls
    return calls


def starts(*jobs: int) -> steps.StartAttempts:
    return steps.StartAttempts(tuple(start_of(TaskKey(job, 1, 0)) for job in jobs))


def test_the_newest_position_is_stored_first_and_once() -> None:
    first, second = Position(1, 5), Position(1, 6)
    effects = (starts(1), steps.Persist(first), steps.Persist(second))
    assert calls_of(*effects) == [("store", 6), ("start", 1)]


def test_starts_and_acknowledgements_are_merged() -> None:
    four, five = TaskKey(4, 1, 0), TaskKey(5, 1, 0)
    effects = (starts(1), steps.Acknowledge((four,)), starts(2), steps.Acknowledge((five,)))
    assert calls_of(*effects) == [("start", 1, 2), ("acknowledge", 4, 5)]


def test_a_stop_follows_the_starts_before_it() -> None:
    effects = (starts(1), steps.StopAttempt(TaskKey(1, 1, 0), "why"), starts(2))
    assert calls_of(*effects) == [("start", 1), ("stop", 1), ("start", 2)]


def test_a_thaw_names_its_freeze_and_its_lease() -> None:
    assert calls_of(steps.Thaw(3, 2_000), steps.DropFolder(7)) == [
        ("thaw", 3, 2_000),
        ("note", "jobs go on after freeze 3: the log was read past it"),
        ("forget", 7),
    ]


def test_what_is_given_back_is_kept_before_anybody_is_told() -> None:
    kept = steps.KeepReturned((TaskKey(7, 1, 0),))
    assert calls_of(kept, steps.SendOutcomes(4, ())) == [("returned", 7), ("outcomes", 4)]


def test_a_roster_is_kept_behind_the_position_that_states_it() -> None:
    effects = (steps.KeepSchedulers(("", "B")), steps.Persist(Position(1, 5)))
    assert calls_of(*effects)[:2] == [("store", 5), ("schedulers", "", "B")]
