# SPDX-License-Identifier: Apache-2.0
"""One sample of this node a second: load, memory, devices; what has no value says why.

Ids grow by one and begin at the agent's start time, so that they grow over restarts too. Devices
without a load counter get theirs from the traces of the jobs on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from stoker.agent.jobs.start_records import Begun
from stoker.agent.jobs.steps import Key
from stoker.agent.state import host_facts
from stoker.probes.kernels.job_trace import TraceSummary
from stoker.scheduler.nouns import (
    JOB_SAMPLES_MAX,
    MILLI,
    DeviceSample,
    JobSample,
    Observation,
)

NO_TRACED_JOB = "no traced job runs on it, and it has no counter of its own"


class DeviceLoad:
    """How busy devices are by the traces of running jobs, between two calls."""

    def __init__(self) -> None:
        self._spent: dict[tuple[Key, str], int] = {}
        self._at_ns = 0

    def ratios(self, summaries: Mapping[Key, TraceSummary], now_ns: int) -> dict[str, float]:
        """Device id -> share of the time since the last call in which it worked, 0 to 1.

        A device is in the answer only if a job on it was known at both ends.
        """
        spent = {
            (key, device.id): device.causes.kernel_ns + device.causes.copy_ns
            for key, summary in summaries.items()
            for device in summary.devices
        }
        passed_ns = now_ns - self._at_ns
        sums: dict[str, int] = {}
        for which, total in spent.items():
            if which in self._spent:
                sums[which[1]] = sums.get(which[1], 0) + total - self._spent[which]
        self._spent, self._at_ns = spent, now_ns
        if passed_ns <= 0:
            return {}
        return {id: min(max(ns / passed_ns, 0.0), 1.0) for id, ns in sums.items()}


def with_busy(samples: Iterable[DeviceSample], ratios: Mapping[str, float]) -> list[DeviceSample]:
    """Samples whose busy ratio, where the device has none of its own, is that of its jobs."""
    return [
        _filled(sample, ratios[sample.id])
        if sample.busy_ratio is None and sample.id in ratios
        else sample
        for sample in samples
    ]


def _filled(sample: DeviceSample, ratio: float) -> DeviceSample:
    absent = {name: why for name, why in sample.absent.items() if name != "busy_ratio"}
    return msgspec.structs.replace(sample, busy_ratio=ratio, absent=absent)


def device_ns(summary: TraceSummary, gpu_milli: int) -> int | None:
    """Device time of a job: in kernels and copies, and its share of what was not observed, since
    unseen work is no reason to charge nothing. None for one that was granted no device."""
    if not gpu_milli:
        return None
    share = min(gpu_milli, MILLI)
    return sum(
        device.causes.kernel_ns
        + device.causes.copy_ns
        + device.causes.not_observed_ns * share // MILLI
        for device in summary.devices
    )


def job_samples(running: Mapping[Key, tuple[Begun, TraceSummary]]) -> tuple[JobSample, ...]:
    """What the jobs that hold devices have used of them so far, as far as it is traced."""
    samples = [
        JobSample(*key, used)
        for key, (begun, summary) in sorted(running.items())
        if (used := device_ns(summary, begun.gpu_milli)) is not None
    ]
    return tuple(samples[:JOB_SAMPLES_MAX])


def observation(
    id: int,
    node: str,
    t_ns: int,
    devices: Iterable[DeviceSample],
    jobs: tuple[JobSample, ...] = (),
) -> Observation:
    """The sample of this moment; reads /proc."""
    return Observation(
        id=id,
        node=node,
        t_ns=t_ns,
        load_milli=host_facts.load_milli(),
        memory_free_bytes=host_facts.memory_free_bytes(),
        devices=tuple(devices),
        jobs=jobs,
    )
