# SPDX-License-Identifier: Apache-2.0
"""Spans: without gap or overlap, equal to the totals, and counted when they do not fit."""

from __future__ import annotations

import os
import struct
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from stoker.probes.host.host_probes import HostLimits, HostProbes
from stoker.probes.host.host_records import BLOCKED, BLOCKED_IO, DETAIL_UNKNOWN, SPAN_BYTES
from tests.probes.groups import CLOCK_NANOSLEEP, Groups, ring_bytes

pytestmark = pytest.mark.needs_bpf

MADE, GONE = 5, 6
"""Told in the place of a state: a thread begins (by the thread whose id is in `to_ns`) or ends."""

Attach = Callable[..., HostProbes]
Span = tuple[int, int, int, int, int]
"""(from_ns, to_ns, tid, state, detail)"""


def by_thread(spans: bytes) -> dict[int, list[Span]]:
    """Spans of each thread in the order in which they came."""
    assert len(spans) % SPAN_BYTES == 0
    threads: dict[int, list[Span]] = defaultdict(list)
    for span in struct.iter_unpack("<QQIHH", spans):
        if span[3] not in (MADE, GONE):
            threads[span[2]].append(span)
    return threads


def turns(spans: bytes, turn: int) -> dict[int, tuple[int, int]]:
    """Beginnings or ends of threads among the spans."""
    told = [span for span in struct.iter_unpack("<QQIHH", spans) if span[3] == turn]
    assert len({span[2] for span in told}) == len(told)
    return {tid: (start, by) for start, by, tid, _, _ in told}


def assert_seamless(spans: list[Span]) -> None:
    for span, following in pairwise(spans):
        assert span[0] < span[1] == following[0]
    assert {span[3] for span in spans} <= {1, 2, 3, 4}


def test_the_ring_of_spans_is_made_for_the_first_job_that_is_followed_in_full(
    groups: Groups, attach: Attach
) -> None:
    """A node whose jobs are only accounted has not half of the memory of the tables."""
    ring = 8 << 20
    before = ring_bytes()
    probes = attach(HostLimits(span_ring_bytes=ring))
    kept, first, second = (groups.job(f"{number}.1") for number in (1, 2, 3))
    probes.follow(kept.id, full=False)
    assert kept.run("nap", 5) == 0
    attached = ring_bytes()
    assert attached - before < ring
    assert probes.spans() == {}
    assert sum(probes.dropped().values()) == 0
    probes.follow(first.id, full=True)
    made = ring_bytes()
    assert made - attached > 2 * ring
    probes.follow(second.id, full=True)
    assert ring_bytes() == made
    assert first.run("nap", 5) == second.run("nap", 5) == 0
    assert set(probes.spans()) == {first.id, second.id}


def test_the_ring_of_spans_is_given_back_once_nobody_needs_it(
    groups: Groups, attach: Attach
) -> None:
    probes = attach(HostLimits(span_ring_bytes=8 << 20))
    attached = ring_bytes()
    first, second = groups.job("1.1"), groups.job("2.1")
    probes.follow(first.id, full=True)
    assert first.run("nap", 5) == 0
    probes.rest()
    assert probes.has_span_ring
    probes.unfollow(first.id)
    assert set(probes.spans()) == {first.id}
    probes.rest()
    assert probes.has_span_ring  # others may have come since
    assert probes.spans() == {}
    probes.rest()
    assert not probes.has_span_ring
    assert ring_bytes() == attached
    assert probes.spans() == {}
    probes.follow(second.id, full=True)
    assert second.run("nap", 5) == 0
    assert set(probes.spans()) == {second.id}
    assert sum(probes.dropped().values()) == 0


@pytest.mark.parametrize(
    ("verb", "argument", "threads"),
    [("nap", 30, 1), ("pingpong", 300, 2), ("crowd", 20, 17), ("threads", 400, 401)],
)
def test_spans_join_and_add_up(
    groups: Groups, attach: Attach, verb: str, argument: int, threads: int
) -> None:
    probes, job = attach(), groups.job()
    probes.follow(job.id, full=True)
    assert job.run(verb, argument) == 0
    told = probes.spans()[job.id]
    seen = by_thread(told)
    assert len(seen) == threads
    made, gone = turns(told, MADE), turns(told, GONE)
    for tid, spans in seen.items():
        assert gone[tid][0] == spans[-1][1]
        if tid in made:
            assert made[tid][0] == spans[0][0]
    assert len(made) >= threads - 1  # the first may have been there before its job
    assert len({by for _, by in made.values()} - set(seen)) <= 1  # who began the job
    sums = [0, 0, 0, 0]
    for spans in seen.values():
        assert_seamless(spans)
        for begin, end, _, state, _ in spans:
            sums[state - 1] += end - begin
    totals = probes.read(job.id).totals
    assert totals is not None
    on_cpu, runnable = totals.on_cpu_ns - totals.stolen_ns, totals.runnable_ns + totals.stolen_ns
    assert sums == [on_cpu, runnable, totals.blocked_ns, totals.io_ns]
    assert probes.dropped()["host.span"] == 0


def test_no_time_on_a_cpu_is_left_in_which_the_thread_did_not_run(
    groups: Groups, attach: Attach
) -> None:
    """The cgroup's own count says what ran; and no more is stolen than the machine says."""
    probes, job, before_ns = attach(), groups.job(), steal_ns()
    probes.follow(job.id, full=True)
    assert job.run("spin", 300) == 0
    stat = dict(line.split() for line in (job.path / "cpu.stat").read_text().splitlines())
    totals = probes.read(job.id).totals
    assert totals is not None
    assert totals.on_cpu_ns >= 3e8 - totals.runnable_ns
    apart_ns = 100_000 * totals.switches
    ran_ns = 1000 * int(stat["usage_usec"])
    assert totals.on_cpu_ns - totals.stolen_ns <= ran_ns + apart_ns + 1_000_000, totals
    assert totals.stolen_ns <= steal_ns() - before_ns + apart_ns + 30_000_000, "ticks of two CPUs"


def steal_ns() -> int:
    ticks = int(Path("/proc/stat").read_text().split(maxsplit=9)[8])
    return ticks * 10**9 // os.sysconf("SC_CLK_TCK")


def test_a_thread_that_execs_goes_on_under_its_leaders_id(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    probes.follow(job.id, full=True)
    assert job.run("exec-thread", 0) == 0
    everything = b"".join(probes.spans().values())
    for spans in by_thread(everything).values():
        for span, following in pairwise(spans):
            assert span[1] <= following[0]
    totals = probes.read(job.id).totals
    assert totals is not None
    assert totals.total_ns == sum(
        end - begin for spans in by_thread(everything).values() for begin, end, *_ in spans
    )


def test_a_blocked_span_names_its_system_call(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    probes.follow(job.id, full=True)
    assert job.run("nap", 10) == 0
    (spans,) = by_thread(probes.spans()[job.id]).values()
    nap = max((span for span in spans if span[3] == BLOCKED), key=lambda span: span[1] - span[0])
    assert nap[4] == CLOCK_NANOSLEEP
    assert {span[4] for span in spans if span[3] < BLOCKED} == {DETAIL_UNKNOWN}
    assert all(span[3] in (BLOCKED, BLOCKED_IO) for span in spans if span[4] != DETAIL_UNKNOWN)


def test_jobs_are_told_apart_and_only_full_ones_have_spans(groups: Groups, attach: Attach) -> None:
    probes = attach()
    one, two, quiet = (groups.job(f"{i}.1") for i in range(3))
    probes.follow(one.id, full=True)
    probes.follow(two.id, full=True)
    probes.follow(quiet.id, full=False)
    started = [job.start("pingpong", 50) for job in (one, two, quiet)]
    assert [process.wait(30) for process in started] == [0, 0, 0]
    spans = probes.spans()
    assert set(spans) == {one.id, two.id}
    assert not set(by_thread(spans[one.id])) & set(by_thread(spans[two.id]))
    probes.unfollow(one.id)
    two.run("nap", 1)
    one.run("nap", 1)
    assert set(probes.spans()) == {two.id}


def test_a_full_ring_counts_its_losses(groups: Groups, attach: Attach) -> None:
    probes, job = attach(HostLimits(span_ring_bytes=4096)), groups.job()
    probes.follow(job.id, full=True)
    assert job.run("pingpong", 500) == 0
    delivered = len(probes.spans()[job.id]) // SPAN_BYTES
    lost = probes.dropped()["host.span"]
    assert delivered == 4096 // 40
    assert lost > 0
    assert probes.made()["host.span"] == delivered + lost
