# SPDX-License-Identifier: Apache-2.0
"""The core's request that a spec becomes."""

from __future__ import annotations

import msgspec
import pytest

from stoker.mesh.replica.works import core_request
from stoker.mesh.replica.works.fence import FENCE_ID
from stoker.native.errors import BadRequest
from stoker.scheduler.book import encode_spec
from stoker.scheduler.names import name_id, queue_id
from stoker.scheduler.nouns import DeviceInfo, JobSpec, NodeReport, Owner
from stoker.scheduler.policies import Option, Placement

KNOWN = ["NVIDIA A100-PCIE-40GB", "NVIDIA A100-SXM4-80GB", "NVIDIA H100"]
OWNER = Owner("alice", 1000, 1000)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (("a100",), KNOWN[:2]),
        (("nvidia h100",), [KNOWN[2]]),
        (("H100", "80gb"), [KNOWN[2], KNOWN[1]]),
        ((), []),
    ],
)
def test_a_part_of_a_models_name_means_all_that_have_it(
    asked: tuple[str, ...], meant: list[str]
) -> None:
    assert core_request.models_meant(asked, KNOWN) == tuple(meant)


def test_a_whole_name_means_only_itself() -> None:
    assert core_request.models_meant(("h100",), ["H100", "H100 NVL"]) == ("H100",)


def test_too_many_models_and_unknown_ones_are_refused() -> None:
    with pytest.raises(BadRequest, match="9 device models are meant"):
        core_request.models_meant(("m",), [f"m{n}" for n in range(9)])
    with pytest.raises(BadRequest, match=r"no device of model 'k80' is known. There are: none"):
        core_request.models_meant(("k80",), [])


def test_known_models_are_those_of_all_reports() -> None:
    reports = [
        NodeReport(f"n{n}", "b", 1, 1, 1, (DeviceInfo("d", "v", model),))
        for n, model in enumerate(("b", "a", "b"))
    ]
    assert core_request.known_models(reports) == ["a", "b"]


def test_every_wish_reaches_the_core() -> None:
    spec = JobSpec(
        ("x",), gpu_milli=2000, queue="q", placement="least-busy", require=("a=b",),
        avoid=("c=d",), tolerate=("e=f",), group="g", company="repel", estimate_s=1.5, after=(7, 9),
        after_any=(8,), after_fail=(5, 6), retries=3, backoff_s=9, preemptible=True,
        preemptor=True, min_run_s=60, same_link=True, device_memory_bytes=1 << 30, priority=-5,
    )  # fmt: skip
    made = core_request.submit(OWNER, b"k" * 16, spec, encode_spec(spec), ("m",))
    assert (made.queue, made.placement) == (queue_id("q"), Placement.LEAST_BUSY)
    assert (made.require, made.avoid) == ((name_id("a=b"),), (name_id("c=d"),))
    assert (made.tolerate, made.models) == ((name_id("e=f"), FENCE_ID), (name_id("m"),))
    assert (made.estimate_ns, made.retries) == (1_500_000_000, 3)
    assert (made.after, made.after_any, made.after_fail) == ((7, 9, 8, 5, 6), 0b100, 0b11000)
    assert (made.backoff_s, made.min_run_s, made.priority) == (9, 60, -5)
    assert made.device_memory_bytes == 1 << 30
    wanted = Option.PREEMPTIBLE | Option.PREEMPTOR | Option.REPEL | Option.SAME_LINK
    assert made.options == wanted


def test_groups_of_two_users_are_two_groups() -> None:
    spec = JobSpec(("x",), group="g", company="attract")
    ids = {
        core_request.submit(Owner(user, 1, 1), b"", spec, encode_spec(spec), ()).group
        for user in ("alice", "bob")
    }
    assert len(ids) == 2


def test_a_plain_job_asks_for_nothing_special() -> None:
    made = core_request.submit(OWNER, b"", JobSpec(("x",)), b"", ())
    assert (made.options, made.placement, made.queue, made.group, made.after) == (0, 0, 0, 0, ())


def test_the_jobs_of_an_array_have_keys_of_their_own() -> None:
    rows = list(core_request.expand(JobSpec(("x",)), b"key", (4, 2)))
    assert len({key for _, key in rows}) == 2 and all(len(key) == 16 for _, key in rows)
    assert rows == list(core_request.expand(JobSpec(("x",)), b"key", (4, 2)))
    assert [key for _, key in core_request.expand(JobSpec(("x",)), b"", (4, 2))] == [b"", b""]
    assert list(core_request.expand(JobSpec(("x",)), b"key", ())) == [(JobSpec(("x",)), b"key")]


def test_a_series_is_one_users_jobs_of_one_name_or_program_on_as_many_devices() -> None:
    train = JobSpec(("./t", "--epochs", "3"), name="train", gpu_milli=1000)
    longer = JobSpec(("./t", "--epochs", "9"), name="train", gpu_milli=1000)
    bare = JobSpec(("./t", "--epochs", "3"), gpu_milli=1000)
    series = core_request.series
    assert series("alice", train) == series("alice", longer) != 0
    others = [
        series("bob", train),
        series("alice", bare),
        series("alice", JobSpec(("./t", "--epochs", "9"), gpu_milli=1000)),
        series("alice", msgspec.structs.replace(train, gpu_milli=500)),
        series("alice", msgspec.structs.replace(train, tasks=2)),
        series("alice", JobSpec(("train",), gpu_milli=1000)),
    ]
    assert len({series("alice", train), *others}) == len(others) + 1
    assert series("alice", JobSpec(("./t",))) == 0
    assert core_request.submit(OWNER, b"", train, b"", ()).series == series("alice", train)
