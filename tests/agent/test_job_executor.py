# SPDX-License-Identifier: Apache-2.0
"""Excluded tracers are recorded at a job's start, and a start is repeated while the spawner has no
process for it; other starts and stops are tested on whole nodes."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from stoker.agent import job_executor
from stoker.agent.job_executor import JobExecutor, gone
from stoker.agent.jobs import steps
from stoker.agent.jobs.job_launch import JobPlace
from stoker.agent.jobs.spawner_messages import Exited, Launch, Refusal
from stoker.agent.jobs.start_records import StartRecords
from stoker.native.errors import NotFound
from stoker.scheduler.nouns import (
    Decision,
    DeviceInfo,
    DeviceShare,
    JobSpec,
    Owner,
    StartJob,
    TaskKey,
)


class Full:
    """A spawner that has no process for the first `refusals` requests."""

    def __init__(self, refusals: int, error: int = errno.EAGAIN) -> None:
        self.left, self.error = refusals, error
        self.taken: list[int] = []
        self.requested = asyncio.Event()

    async def start(self, launches: list[Launch]) -> list[Refusal]:
        self.requested.set()
        self.left -= 1
        if self.left >= 0:
            return [Refusal(*each.key, self.error, "none") for each in launches]
        self.taken += [each.job for each in launches]
        return []

    async def stop(self, job: int, attempt: int, reason: str, grace_s: float) -> None:
        raise NotFound("no such job here")


def launch_of(job: int) -> Launch:
    return Launch(job, 1, 0, 0, ("true",), {}, "/", 1, 1, "/jobs")


def executor_of(spawner: Full, tmp_path: Path, events: list[steps.Event]) -> JobExecutor:
    none = cast(Any, None)
    return JobExecutor(
        cast(Any, spawner),
        starts=StartRecords.open(tmp_path / "starts"),
        place=JobPlace("n", "/jobs", "/segments"),
        tracer=none,
        devices=lambda: (),
        post=events.append,
    )


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[steps.Event]:
    monkeypatch.setattr(job_executor, "SHORT_S", (0.0,) * 5)
    return []


async def test_a_start_without_a_process_for_it_is_given_again(
    tmp_path: Path, events: list[steps.Event]
) -> None:
    spawner = Full(3)
    given = executor_of(spawner, tmp_path, events)
    await given._send([launch_of(1), launch_of(2)])
    assert spawner.taken == [1, 2]
    assert [event for event in events if event != steps.Taken(())] == [
        steps.Taken(((1, 1, 0, 0), (2, 1, 0, 0)))
    ]
    assert given.counters["spawner_short"] == 3


@pytest.mark.parametrize(
    ("error", "blames", "told"),
    [(errno.ENOMEM, 1, "none: Cannot allocate memory"), (errno.EBUSY, 0, "none")],
)
async def test_one_that_finds_none_for_long_is_given_back_and_has_not_failed(
    tmp_path: Path, events: list[steps.Event], error: int, blames: int, told: str
) -> None:
    """A node with as many jobs as it keeps is well, and takes more once some have ended."""
    spawner = Full(10_000, error)
    given, blamed = executor_of(spawner, tmp_path, events), list[str]()
    given.failed_launch = blamed.append
    await given._send([launch_of(1)])
    (last,) = [event for event in events if not isinstance(event, steps.Taken)]
    assert isinstance(last, steps.NotTaken) and (last.key, last.state) == ((1, 1, 0, 0), "pending")
    assert last.reason == f"it could not be launched on node n: {told}"
    assert spawner.taken == [] and given._short == {}
    assert blamed == [f"it could not launch a job: {told}"] * blames


async def test_a_start_that_the_node_has_no_room_for_is_not_failed(
    tmp_path: Path, events: list[steps.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node is blamed first, so that its report is on its way before the job waits again."""
    given = with_cards(tmp_path, Full(0), events)
    given.failed_launch = lambda why: events.append(cast(Any, why))

    def full(records: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/state/agent/starts")

    monkeypatch.setattr(given._starts, "add", full)
    given.start([start_on(1)])
    blamed, back = events
    why = "[Errno 28] No space left on device: '/state/agent/starts'"
    assert blamed == f"it could not launch a job: {why}"  # type: ignore[comparison-overlap]
    assert isinstance(back, steps.NotTaken) and back.state == "unlaunched"
    assert back.reason == f"it could not be launched on node n: {why}"


async def test_the_end_of_a_launch_blames_the_node_once(
    tmp_path: Path, events: list[steps.Event]
) -> None:
    """The spawner tells of an end again until the log has it."""
    given, blamed = executor_of(Full(0), tmp_path, events), list[str]()
    given.failed_launch = blamed.append
    end = Exited(1, 1, 0, 0, "start_failed", None, None, "no cgroup", 0, 0, None, 5, None, 0, 0)
    for said in (end, msgspec.structs.replace(end, job=2, of_the_node=True)) * 2:
        told = given.core_event(said)
        assert isinstance(told, steps.JobEnded)
        assert told.outcome.state == ("unlaunched" if said.of_the_node else "failed")
    assert blamed == ["it could not launch a job: no cgroup"]
    never = msgspec.structs.replace(end, cause="never_started", of_the_node=True, job=3)
    told = given.core_event(never)
    assert told == steps.NeverStarted(
        (3, 1, 0, 0), 5, "it could not be launched on node n: no cgroup"
    )


async def test_one_that_is_stopped_meanwhile_is_not_given_again(
    tmp_path: Path, events: list[steps.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    spawner = Full(2)
    given = executor_of(spawner, tmp_path, events)
    giving = asyncio.ensure_future(given._send([launch_of(1), launch_of(2)]))
    await spawner.requested.wait()
    await asyncio.sleep(0)
    given.stop(steps.StopAttempt(TaskKey(1, 1, 0), "cancelled"))
    await giving
    assert spawner.taken == [2]
    (never,) = [event for event in events if isinstance(event, steps.NeverStarted)]
    assert never.key == (1, 1, 0, 0)


async def test_another_refusal_is_final(tmp_path: Path, events: list[steps.Event]) -> None:
    await executor_of(Full(1, errno.EINVAL), tmp_path, events)._send([launch_of(1)])
    (final,) = [event for event in events if isinstance(event, steps.NotTaken)]
    assert (final.key, final.state) == ((1, 1, 0, 0), "failed")
    assert final.reason == "it could not be launched on node n: none"


def start_on(job: int, *shares: DeviceShare) -> StartJob:
    decision = Decision(job, "n", shares, "fits", 1)
    return StartJob(job, 1, 0, 0, decision, Owner("u", 1, 1), JobSpec(("true",), trace="off"))


def with_cards(tmp_path: Path, spawner: Full, events: list[steps.Event]) -> JobExecutor:
    """Return an executor of a node with two cards and a CPU device."""
    cards = tuple(DeviceInfo(f"card-{n}", "v", "m") for n in range(2))
    cpu = DeviceInfo("cpu", "pocl", "m", kind="cpu")
    made = executor_of(spawner, tmp_path, events)
    made._devices = lambda: (*cards, cpu)
    return made


async def done(given: JobExecutor) -> None:
    while given._tasks:
        await asyncio.gather(*given._tasks)


async def test_nothing_starts_on_an_occupied_device(
    tmp_path: Path, events: list[steps.Event]
) -> None:
    """Jobs of other devices start beside it; those without a whole card are not looked at."""
    spawner, looked = Full(0), []
    given = with_cards(tmp_path, spawner, events)

    async def occupied(ids: frozenset[str]) -> dict[str, str]:
        looked.append(ids)
        return {"card-0": "held by pid 812 (python3)"}

    given.occupied = occupied
    given.start(
        [
            start_on(1, DeviceShare(0, 1000)),
            start_on(2, DeviceShare(1, 1000)),
            start_on(3, DeviceShare(0, 500)),
            start_on(4, DeviceShare(2, 1000)),
            start_on(5),
        ]
    )
    await done(given)
    assert looked == [{"card-0", "card-1"}]
    assert sorted(spawner.taken) == [2, 3, 4, 5]
    (refused,) = [event for event in events if isinstance(event, steps.NotTaken)]
    assert refused.key == (1, 1, 0, 0) and refused.state == "pending"
    assert refused.reason == "device card-0 is occupied: held by pid 812 (python3)"
    assert given.counters["device_occupied"] == 1


async def test_a_start_that_is_stopped_while_its_device_is_looked_at_is_not_sent(
    tmp_path: Path, events: list[steps.Event]
) -> None:
    spawner = Full(0)
    given = with_cards(tmp_path, spawner, events)

    async def occupied(ids: frozenset[str]) -> dict[str, str]:
        given.stop(steps.StopAttempt(TaskKey(1, 1, 0), "cancelled"))
        return {}

    given.occupied = occupied
    given.start([start_on(1, DeviceShare(0, 1000))])
    await done(given)
    assert spawner.taken == []
    assert [event.key for event in events if isinstance(event, steps.NeverStarted)] == [
        (1, 1, 0, 0)
    ]


def test_a_tracer_whose_library_is_gone_is_named(tmp_path: Path) -> None:
    library = tmp_path / "libstoker-opencl.so"
    library.touch()
    place = JobPlace("n", "/jobs", "/segments", str(library), {"cupti": str(tmp_path / "none.so")})
    assert list(gone(place)) == ["cupti"]
    library.unlink()
    assert str(library) in gone(place)["opencl"]
    assert gone(JobPlace("n", "/jobs", "/segments")) == {}
