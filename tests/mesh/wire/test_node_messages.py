# SPDX-License-Identifier: Apache-2.0
"""Messages of nodes: each is refused or fits the core."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.mesh.replica.works.outcome_work import OutcomeWork
from stoker.mesh.replica.works.work import HelloWork
from stoker.mesh.wire import node_messages
from stoker.mesh.wire.command import HAVE_MAX, Position, StateRequest
from stoker.native.errors import BadRequest
from stoker.scheduler.core import Limits
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import (
    GANG_SAMPLES_MAX,
    JOB_SAMPLES_MAX,
    MEMBER_SAMPLES_MAX,
    TASKS_PER_JOB_MAX,
    TROUBLES_MAX,
    CommunicatorSample,
    DeviceInfo,
    DeviceSample,
    GangSample,
    JobSample,
    MemberSample,
    NodeReport,
    Observation,
    Outcome,
    TaskKey,
    TroubleSample,
)
from stoker.scheduler.records import STATE_CODES, TaskOutcome
from tests.mesh.founding import founded

encode = msgspec.msgpack.encode
ANY = st.integers(-(2**63), 2**64 - 1)


STATE = founded("c", Limits(1, 1, 1, 1, 1, 1, 1))


def no_count(name: str, by: int) -> None:
    """Count nothing."""


@given(
    st.builds(
        Outcome,
        job=ANY,
        attempt=ANY,
        task=ANY,
        placing=ANY,
        decision=ANY,
        state=st.sampled_from(["running", "succeeded", "failed", "lost"]),
        t_ns=ANY,
        exit_code=st.none() | ANY,
        signal=st.none() | ANY,
        reason=st.text(max_size=2000),
    )
)
def test_outcomes_are_refused_or_fit(outcome: Outcome) -> None:
    try:
        found = node_messages.outcomes(encode((outcome,)))
    except BadRequest:
        return
    assert OutcomeWork(None, "n1", found, no_count).count == 1
    assert len(found[0].reason.encode()) <= node_messages.REASON_BYTES_MAX


@given(
    st.builds(
        NodeReport,
        node=st.sampled_from(["n1", "n2"]),
        boot_id=st.text(max_size=50),
        incarnation=ANY,
        cpu_milli=ANY,
        memory_bytes=ANY,
        devices=st.lists(
            st.builds(
                DeviceInfo,
                id=st.text(max_size=9),
                vendor=st.text(max_size=9),
                model=st.text(max_size=9),
                memory_bytes=st.none() | ANY,
                unavailable=st.text(max_size=9),
            ),
            max_size=3,
        ).map(tuple),
    )
)
def test_reports_are_refused_or_fit(report: NodeReport) -> None:
    try:
        found = node_messages.report(encode(report), "n1")
    except BadRequest:
        return
    assert HelloWork(None, found, STATE).count == 1 + len(found.devices) + len(found.labels)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_decoded(data: bytes) -> None:
    for decode in (
        node_messages.outcomes,
        node_messages.state_request,
        lambda d: node_messages.report(d, "n1"),
        lambda d: node_messages.observation(d, "n1"),
    ):
        try:
            decode(data)  # type: ignore[operator]
        except BadRequest:
            continue


@pytest.mark.parametrize("data", [b"\xdc" + b"\x91" * 5000, b"\x91" * 100_000, b"\xc1"])
def test_deep_nesting_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        node_messages.outcomes(data)


@pytest.mark.parametrize("reading", [float("nan"), float("inf"), -1e306])
@pytest.mark.parametrize(
    "field",
    ["power_w", "temperature_c", "busy_ratio", "limit_c", "power_limit_w", "clock_ratio"],
)
def test_a_reading_that_no_device_has_is_refused(field: str, reading: float) -> None:
    """The core's numbers are integers, and what is made of a reading must be one."""
    good = DeviceSample("a", 0.5, 90.0, 30.0, {}, 87.0, 700.0, 1.0, 1 << 30, ("idle",))
    bad = msgspec.structs.replace(good, **{field: reading})
    assert node_messages.observation(encode(Observation(1, "n1", 1, 0, 0, (good,))), "n1")
    for devices in ((bad,), (good, bad)):
        sample = Observation(1, "n1", 1, 0, 0, devices)
        refused(lambda data: node_messages.observation(data, "n1"), sample, "not a number")


def refused(decode: Any, message: Any, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        decode(encode(message))


def test_numbers_of_things_are_bounded() -> None:
    one = Outcome(1, 1, 0, 5, 1, "lost", 1)
    refused(node_messages.outcomes, (one,) * 513, "513 outcomes")
    refused(node_messages.outcomes, (), "0 outcomes")
    have = (TaskKey(1, 1, 0),) * (HAVE_MAX + 1)
    refused(node_messages.state_request, StateRequest(1, Position(), have), "attempts, at most")
    samples = Observation(
        1, "n1", 1, 1, 1, jobs=(JobSample(1, 1, 0, 5, 1),) * (JOB_SAMPLES_MAX + 1)
    )
    refused(lambda data: node_messages.observation(data, "n1"), samples, "jobs in a sample")
    devices = (DeviceInfo("d", "v", "m"),) * 65
    report = NodeReport("n1", "b", 1, 1, 1, devices)
    refused(lambda data: node_messages.report(data, "n1"), report, "65 devices")
    large = NodeReport("n1", "b" * 200_000, 1, 1, 1)
    refused(lambda data: node_messages.report(data, "n1"), large, "bytes, at most")


def one_gang(**changes: Any) -> GangSample:
    """A gang with one rank and one trouble; `changes` are those of its parts, by their name."""
    parts = {
        "member": MemberSample(0, 0, 1, 1, 1),
        "row": CommunicatorSample(5, 2, "mpi.MPI_Barrier", ()),
        "trouble": TroubleSample(0, "slow", "slow"),
    }
    for name, change in changes.items():
        parts[name] = msgspec.structs.replace(parts[name], **change)
    row = msgspec.structs.replace(parts["row"], members=(parts["member"],))
    return GangSample(1, 1, 0, 5, (row,), (parts["trouble"],))  # type: ignore[arg-type]


def of_gangs(*gangs: GangSample) -> Observation:
    return Observation(1, "n1", 1, 1, 1, gangs=gangs)


def test_what_is_told_of_ranks_is_bounded() -> None:
    def observed(data: bytes) -> Observation:
        return node_messages.observation(data, "n1")

    gang = one_gang()
    assert observed(encode(of_gangs(gang))).gangs == (gang,)
    refused(observed, of_gangs(*(gang,) * (TROUBLES_MAX + 1)), "33 troubles of ranks in a sample")
    bare = GangSample(1, 1, 0, 5)
    refused(observed, of_gangs(*(bare,) * (GANG_SAMPLES_MAX + 1)), "65 gangs in a sample")
    (row,) = gang.communicators
    many = msgspec.structs.replace(row, members=row.members * (MEMBER_SAMPLES_MAX + 1))
    refused(observed, of_gangs(GangSample(1, 1, 0, 5, (many,))), "513 ranks in a sample")


@pytest.mark.parametrize(
    "changes",
    [
        {"member": {"rank": -1}},
        {"member": {"task": TASKS_PER_JOB_MAX}},
        {"member": {"entered": -1}},
        {"member": {"own_ns": 1 << 63}},
        {"member": {"waits_ns": -1}},
        {"member": {"part": 1 << 32}},
        {"row": {"key": -1}},
        {"row": {"size": 0}},
        {"row": {"call": "c" * 200}},
        {"trouble": {"text": "t" * 200}},
        {"trouble": {"longer": float("nan")}},
        {"trouble": {"rank": 1 << 16}},
        {"trouble": {"lag_ns": -1}},
        {"trouble": {"lasts_ns": -1}},
    ],
)
def test_a_rank_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    sample = of_gangs(one_gang(**changes))
    refused(lambda data: node_messages.observation(data, "n1"), sample, "rank with a number out")


@pytest.mark.parametrize("times", [{"told_ns": -1}, {"told_ns": 5, "resumed_ns": 6}])
def test_ranks_of_a_time_that_cannot_be_are_refused(times: dict[str, int]) -> None:
    sample = of_gangs(msgspec.structs.replace(one_gang(), **times))
    refused(lambda data: node_messages.observation(data, "n1"), sample, "rank with a number out")


@pytest.mark.parametrize(
    "cpus", ["0-", "a", "1,,2", "0-9999", "0-4095," * 3 + "1", "1," * 600, "٣"]
)
def test_what_is_no_list_of_cpus_is_refused(cpus: str) -> None:
    report = NodeReport("n1", "b", 1, 1, 1, (DeviceInfo("d", "v", "m", near_cpus=cpus),))
    refused(lambda data: node_messages.report(data, "n1"), report, "out of range")
    good = NodeReport("n1", "b", 1, 1, 1, (DeviceInfo("d", "v", "m", near_cpus="0-3,8,10-12"),))
    assert node_messages.report(encode(good), "n1") == good


def test_a_node_speaks_for_itself() -> None:
    report = NodeReport("n2", "b", 1, 1, 1)
    refused(lambda data: node_messages.report(data, "n1"), report, "n1 reports as n2")
    sample = Observation(1, "n2", 1, 1, 1)
    refused(lambda data: node_messages.observation(data, "n1"), sample, "n1 observes as n2")
    late = Observation(0, "n1", 1, 1, 1)
    refused(lambda data: node_messages.observation(data, "n1"), late, "out of range")


@pytest.mark.parametrize(
    "key",
    [
        (0, 1, 0),
        (1, 0, 0),
        (1, 1 << 32, 0),
        (1, 1, -1),
        (1, 1, 64),
        (1, 1, 1 << 16),
        (1, 1, 0, -1),
    ],
)
def test_a_start_that_the_core_cannot_have_made_is_refused(key: tuple[int, ...]) -> None:
    have = StateRequest(1, Position(), (TaskKey(*key),))
    refused(node_messages.state_request, have, "out of range")
    refused(node_messages.outcomes, (Outcome(*TaskKey(*key), 1, "lost", 1),), "out of range")
    sample = Observation(1, "n1", 1, 1, 1, jobs=(JobSample(*TaskKey(*key), 1),))
    refused(lambda data: node_messages.observation(data, "n1"), sample, "out of range")


def test_an_end_tells_the_core_how_long_its_program_and_a_launch_of_it_took() -> None:
    key = TaskKey(1, 1, 0, 9)
    end = Outcome(*key, 1, "succeeded", 5_000, started_ns=2_000, launch_ns=70)
    assert node_messages.outcomes(encode((end,))) == (end,)
    node, state = name_id("n1"), STATE_CODES["succeeded"]
    told = TaskOutcome(1, 1, node, state, run_ns=3_000, launch_ns=70)
    assert OutcomeWork(None, "n1", (end,), no_count).requests == told.pack()
    backwards = msgspec.structs.replace(end, started_ns=6_000, launch_ns=None)
    assert OutcomeWork(None, "n1", (backwards,), no_count).requests == (
        TaskOutcome(1, 1, node, state).pack()
    )
    running = msgspec.structs.replace(end, state="running", launch_ns=None)
    assert OutcomeWork(None, "n1", (running,), no_count).requests == (
        TaskOutcome(1, 1, node, STATE_CODES["running"]).pack()
    )
    for bad in (0, -1, 1 << 63):
        refused(node_messages.outcomes, (msgspec.structs.replace(end, launch_ns=bad),), "range")


def test_the_last_task_of_a_job_is_taken() -> None:
    last = TaskKey((1 << 63) - 1, (1 << 32) - 1, 63, (1 << 64) - 1)
    outcome = Outcome(*last, 1, "lost", 1)
    assert node_messages.outcomes(encode((outcome,))) == (outcome,)
    request = TaskOutcome(*last[:2], name_id("n1"), STATE_CODES["lost"], task=63)
    assert OutcomeWork(None, "n1", (outcome,), no_count).requests == request.pack()
    have = StateRequest(1, Position(), (last,))
    assert node_messages.state_request(encode(have)) == have
