# SPDX-License-Identifier: Apache-2.0
"""The verdict on a running job follows what it does now, not what it did since its start."""

from __future__ import annotations

from stoker.agent.link.job_verdicts import LEAST_NS, STRETCH_NS, JobVerdicts, Summed
from stoker.probes.kernels.job_trace import Causes, DeviceRow, KernelSummary
from stoker.scheduler.nouns import VERDICTS_MAX, TaskKey

S = 1_000_000_000
KEY = TaskKey(7, 1, 0, 99)


class Running:
    """One job whose device spends each second as it is told."""

    def __init__(self) -> None:
        self.verdicts = JobVerdicts()
        self.now_ns = 0
        self.causes: dict[str, int] = {}
        self.launches = 0

    def second(self, cause: str, launches: int = 0) -> None:
        self.now_ns += S
        self.causes[cause] = self.causes.get(cause, 0) + S
        self.launches += launches

    def said(self) -> tuple[str, int, int]:
        device = DeviceRow("gpu-0", self.now_ns, Causes(**self.causes))
        kernel = KernelSummary("k", self.launches, self.launches * 1000, 0, 0)
        (found,) = self.verdicts.of({KEY: Summed((device,), (kernel,))}, self.now_ns)
        return found.bottleneck, found.share_milli, found.window_ns


def test_a_change_shows_within_two_stretches_and_not_at_once() -> None:
    job = Running()
    for _ in range(300):
        job.second("kernel_ns")
        said = job.said()
        assert said[:2] == ("GPU-bound", 1000)
    seconds = 0
    while said[0] == "GPU-bound":
        job.second("host_runnable_ns")
        seconds += 1
        said = job.said()
    assert said[0] == "starved of CPU" and 1 < seconds <= 2 * STRETCH_NS // S
    for _ in range(2 * STRETCH_NS // S):
        job.second("host_runnable_ns")
        said = job.said()
    assert said[:2] == ("starved of CPU", 1000) and STRETCH_NS <= said[2] <= 2 * STRETCH_NS


def test_the_idle_share_is_of_the_stretch_whatever_bounds_the_job() -> None:
    job = Running()
    for second in range(40):
        job.second("kernel_ns" if second % 4 else "held_idle_ns")
        job.said()
    assert job.said()[0] == "GPU-bound" and 0.2 < job.verdicts.idle[KEY] < 0.3
    for _ in range(2 * STRETCH_NS // S):
        job.second("held_idle_ns")
        job.said()
    assert job.verdicts.idle == {KEY: 1.0}
    job.verdicts.of({}, job.now_ns)
    assert job.verdicts.idle == {}


def test_launches_count_in_the_stretch_alone() -> None:
    job = Running()
    for _ in range(40):
        job.second("host_on_cpu_ns", launches=1000)
        said = job.said()
    assert said[0] == "launch-bound"
    for _ in range(40):
        job.second("host_on_cpu_ns")
        said = job.said()
    assert said[0] == "host-bound"


def test_a_cause_that_shrinks_makes_no_share_above_one() -> None:
    """Idle time turns out to be unobserved as soon as a process without a tracer is found."""
    job = Running()
    for _ in range(5):
        job.second("held_idle_ns")
        job.said()
    job.causes = {"not_observed_ns": job.now_ns + S}
    job.now_ns += S
    said = job.said()
    assert said[:2] == ("not observed", 1000)


def test_a_young_job_has_no_verdict_and_an_ended_one_is_forgotten() -> None:
    verdicts = JobVerdicts()
    young = DeviceRow("gpu-0", LEAST_NS - 1, Causes(kernel_ns=LEAST_NS - 1))
    assert verdicts.of({KEY: Summed((young,))}, 5) == ()
    assert verdicts.of({}, 6) == () and not verdicts._marks


def test_the_oldest_jobs_are_judged_where_there_are_too_many() -> None:
    device = DeviceRow("gpu-0", S, Causes(kernel_ns=S))
    many = {TaskKey(n, 1, 0, 1): Summed((device,)) for n in range(1, VERDICTS_MAX + 20)}
    found = JobVerdicts().of(many, S)
    assert [each.job for each in found] == list(range(1, VERDICTS_MAX + 1))
