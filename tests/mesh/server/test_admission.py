# SPDX-License-Identifier: Apache-2.0
"""Admission: wrong fields are refused by name, and every admitted request fits the log."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.mesh.replica.works.submit_work import SubmitWork
from stoker.mesh.replica.works.work import BATCH_BYTES_MAX
from stoker.mesh.server import admission
from stoker.mesh.wire import schema
from stoker.mesh.wire.job_request import Afters
from stoker.mesh.wire.schema import JobRequest
from stoker.native.errors import BadRequest
from stoker.scheduler.job_options import LIMITS
from stoker.scheduler.nouns import Owner


def test_the_logged_spec_is_the_requested_one() -> None:
    request = JobRequest(
        argv=("a", "b"),
        cwd="/x",
        env={"K": "v"},
        name="n",
        gpu_milli=2000,
        cpu_milli=500,
        memory_bytes=1 << 30,
        pids=9,
        time_limit_s=1.5,
        grace_s=2.0,
        priority=-3,
        trace="full",
        stdin=True,
        umask=0o77,
        output_bytes_max=0,
    )
    spec = admission.admit(request)
    made = {"array_size", "array_index", "array_place", "launch_key"}
    for field in set(spec.__struct_fields__) - made:
        assert getattr(spec, field) == getattr(request, field), field


@pytest.mark.parametrize("again", [{"retries": 1}, {"preemptible": True}, {"array": (1, 2)}])
def test_input_is_given_once_to_one_job(again: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="stdin with"):
        admission.admit(JobRequest(argv=("cat",), stdin=True, **again))


@pytest.mark.parametrize(
    ("asked", "shape"),
    [
        ({}, (1, 0)),
        ({"tasks": 8}, (8, 0)),
        ({"tasks_per_node": 4}, (4, 4)),
        ({"nodes": 3}, (3, 1)),
        ({"nodes": 1}, (1, 0)),
        ({"nodes": 2, "tasks_per_node": 4}, (8, 4)),
        ({"tasks": 8, "nodes": 2}, (8, 4)),
        ({"tasks": 8, "tasks_per_node": 4}, (8, 4)),
        ({"tasks": 8, "tasks_per_node": 4, "nodes": 2}, (8, 4)),
        ({"tasks": 8, "nodes": 3}, "8 tasks cannot be divided that way: 3 nodes, 2 each"),
        ({"tasks": 2, "nodes": 3}, "2 tasks cannot be divided that way: 3 nodes, 1 each"),
        ({"tasks": 9, "tasks_per_node": 4}, "cannot be divided that way: 4 on each node"),
        ({"tasks": 8, "tasks_per_node": 4, "nodes": 3}, "cannot be divided that way: 3 nodes"),
        ({"nodes": 20, "tasks_per_node": 8}, "20 nodes with 8 tasks are 160 tasks, at most 64"),
    ],
)
def test_the_shape_of_a_gang(asked: dict[str, int], shape: tuple[int, int] | str) -> None:
    request = JobRequest(("true",), **asked)
    if isinstance(shape, str):
        with pytest.raises(BadRequest, match=re.escape(shape)):
            admission.admit(request)
        return
    spec = admission.admit(request)
    assert (spec.tasks, spec.tasks_per_node) == shape


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("queue", "A b", "queue 'A b' is no name"),
        ("group", "-", "group '-' is no name"),
        ("company", "repel", "no group is named"),
        ("placement", "custom", "no placement 'custom'"),
        ("require", ("a",), "require 'a' is not KEY=VALUE"),
        ("avoid", tuple(f"k{n}=v" for n in range(5)), "avoid has 5 labels, at most 4"),
        ("require", ("a=1", "b=1", "a=2"), "names 'a=1' and 'a=2': a node has one of them"),
        ("models", ("",), "a device model has 1 to"),
        ("models", ("m",) * 9, "models has 9 names, at most 8"),
        ("tasks", 0, "tasks is 0, from 1 to 64"),
        ("tasks", 65, "tasks is 65, from 1 to 64"),
        ("tasks_per_node", 65, "tasks_per_node is 65"),
        ("nodes", -1, "nodes is -1"),
        ("array", tuple(range(100_001)), "array has 100001 jobs, at most 100000"),
        ("array_list", "0-100000", "has more than 100000 jobs"),
        ("array_list", "0-9%0", "how many of its jobs go on at once"),
        ("array_list", "1,1", "an index twice"),
        ("array", (1, 1), "an index twice"),
        ("array", (-1,), "array is -1"),
        ("mpi", True, "mpi needs an idempotency_key of at least 16 characters"),
        ("retries", 11, "retries is 11, from 0 to 10"),
        ("backoff_s", 0, "backoff_s is 0"),
        ("estimate_s", 0.0, "estimate_s is 0"),
        ("min_run_s", 5, "not preemptible"),
        ("same_link", True, "gpu_milli is 0"),
        ("device_memory_bytes", 1 << 30, "gpu_milli is 0"),
        ("argv", (), "argv is empty"),
        ("argv", ("",), "argv is empty"),
        ("argv", ("a\0b",), "argv holds a NUL"),
        ("argv", ("x" * 131_072,), "argv has 131073 bytes"),
        ("argv", ("x",) * 4097, "argv has 4097 words"),
        ("argv", ("\ud800",), "not valid Unicode"),
        ("env", {"A=B": "c"}, "environment variable"),
        ("env", {"": "c"}, "environment variable"),
        ("env", {"A": "x\0"}, "env holds a NUL"),
        ("env", {"A": "x" * 65_536}, "env has 65539 bytes"),
        ("env", {str(n): "" for n in range(1025)}, "env has 1025 variables"),
        ("cwd", "tmp", "not an absolute path"),
        ("cwd", "/" + "x" * 5000, "cwd has more than"),
        ("name", "a\nb", "printable"),
        ("name", "x" * 129, "name has at most"),
        ("idempotency_key", "x" * 129, "idempotency_key has at most"),
        ("gpu_milli", -1, "gpu_milli is -1"),
        ("gpu_milli", 1500, "must be a multiple of 1000"),
        ("gpu_milli", 17_000, "asks for 17 devices, at most 16"),
        ("cpu_milli", 0, "cpu_milli is 0"),
        ("memory_bytes", 1, "memory_bytes is 1 byte, from 1 MiB to 1 PiB"),
        ("memory_bytes", 1_073_740_750_258_176 << 1, "memory_bytes is 1.907 PiB, from 1 MiB"),
        ("pids", 0, "pids is 0"),
        ("time_limit_s", 0.0, "time_limit_s is 0"),
        ("time_limit_s", math.nan, "time_limit_s is nan"),
        ("time_limit_s", math.inf, "time_limit_s is inf"),
        ("grace_s", -1.0, "grace_s is -1"),
        ("priority", 101, "priority is 101"),
        ("umask", 0o1000, "umask is 512"),
        ("output_bytes_max", -1, "output_bytes_max is -1"),
        ("output_bytes_max", 1 << 41, "output_bytes_max is"),
    ],
)
def test_each_wrong_field_is_named(field: str, value: Any, says: str) -> None:
    fields: dict[str, Any] = {"argv": ("true",), field: value}
    with pytest.raises(BadRequest) as caught:
        admission.admit(JobRequest(**fields))
    assert says in caught.value.message


TEXT = st.text(max_size=40)


def test_the_ranks_of_an_mpi_gang_get_a_secret_that_a_repeat_has_as_well() -> None:
    def key(request: JobRequest) -> str:
        return admission.admit(request).launch_key

    gang = JobRequest(("mpirun",), mpi=True, tasks=2, idempotency_key="k" * 16)
    assert key(gang) == key(gang) and len(key(gang)) == 32
    assert key(gang) != key(msgspec.structs.replace(gang, idempotency_key="l" * 16))
    assert admission.key_bytes("k" * 16).hex() != key(gang), "what the core keeps is not the secret"
    assert key(msgspec.structs.replace(gang, mpi=False)) == ""
    with pytest.raises(BadRequest, match="mpi is for a gang, but there is one task"):
        admission.admit(msgspec.structs.replace(gang, tasks=1))


def test_what_a_request_says_nothing_of_is_within_its_limits() -> None:
    """The limits of a request that has the default of each option are not looked at."""
    silent = JobRequest(argv=("true",))
    for limit in LIMITS:
        value = getattr(silent, limit.option)
        assert value is None or limit.least <= value <= limit.most, limit.option
    admission.admit(silent)
    with pytest.raises(BadRequest, match="min_link_gbps is 3, but topology is 'none'"):
        admission.admit(JobRequest(argv=("true",), gpu_milli=2000, min_link_gbps=3))


def test_jobs_to_follow_are_named_once_and_not_too_many() -> None:
    request = JobRequest(("true",), after=(1, 2))
    spec = admission.admit(request, Afters((1, 2), (3,), (4,)))
    assert (spec.after, spec.after_any, spec.after_fail) == ((1, 2), (3,), (4,))
    with pytest.raises(BadRequest, match="job 3 is named twice, in after_any and in after_fail"):
        admission.admit(request, Afters((1,), (3,), (3,)))
    admission.check_afters_count(JobRequest(("true",), after=(1,) * 4, after_fail=(2,) * 4))
    with pytest.raises(BadRequest, match="name 9 jobs, at most 8"):
        admission.check_afters_count(JobRequest(("true",), after=(1,) * 4, after_any=(2,) * 5))


@given(
    st.builds(
        JobRequest,
        argv=st.tuples(TEXT, TEXT),
        cwd=TEXT.map(lambda text: "/" + text),
        env=st.dictionaries(TEXT, TEXT, max_size=3),
        name=TEXT,
        idempotency_key=TEXT,
        gpu_milli=st.integers(-5, 20_000),
        cpu_milli=st.none() | st.integers(),
        memory_bytes=st.none() | st.integers(),
        pids=st.none() | st.integers(),
        time_limit_s=st.none() | st.floats(),
        grace_s=st.floats(),
        priority=st.integers(),
        umask=st.integers(),
        output_bytes_max=st.integers(),
    )
)
def test_every_admitted_request_can_be_packed(request: JobRequest) -> None:
    try:
        spec = admission.admit(request)
    except BadRequest:
        return
    key = admission.key_bytes(request.idempotency_key)
    work = SubmitWork(None, Owner("u", 1, 1), key, spec)
    assert work.size <= BATCH_BYTES_MAX
    assert len(key) in (0, 16)


def test_the_largest_job_fits_into_one_entry() -> None:
    request = JobRequest(
        argv=("x" * 131_071,), env={"A": "y" * 65_533}, cwd="/" + "z" * 4094, name="n" * 128
    )
    owner = Owner("u" * 64, 2**31, 2**31, tuple(range(2**31, 2**31 + 64)))
    work = SubmitWork(None, owner, b"k" * 16, admission.admit(request))
    assert work.size <= BATCH_BYTES_MAX
    assert len(schema.encode(request)) < 512_000


def test_a_label_is_not_both_required_and_avoided() -> None:
    request = JobRequest(argv=("true",), require=("a=1", "b=1", "a=1"), avoid=("a=2",))
    assert admission.admit(request).require == request.require
    with pytest.raises(BadRequest, match="require and avoid both name 'b=1'"):
        admission.admit(msgspec.structs.replace(request, avoid=("b=1",)))
