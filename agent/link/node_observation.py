# SPDX-License-Identifier: Apache-2.0
"""One observation of this node a second: load, memory, devices; an absent value has its reason.

Ids grow by one and begin at the agent's start time, so they grow across restarts too. A device
without a load counter gets its load from the traces of its jobs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.state import host_facts
from stoker.probes.kernels.job_trace import TraceSummary
from stoker.scheduler.nouns import (
    JOB_SAMPLES_MAX,
    MILLI,
    TROUBLE_CHARS_MAX,
    TROUBLES_MAX,
    DeviceSample,
    GangSample,
    JobSample,
    JobVerdict,
    Observation,
    TaskKey,
)

LAUNCHES_MIN = 100
"""The fewest launches of a job whose mean time tells of its device."""


class DeviceLoad:
    """The load of devices between two calls, from the traces of running jobs."""

    def __init__(self) -> None:
        self._used_ns: dict[tuple[TaskKey, str], int] = {}
        self._at_ns = 0

    def ratios(self, summaries: Mapping[TaskKey, TraceSummary], now_ns: int) -> dict[str, float]:
        """Return device id -> share of the time since the last call in which it worked, 0 to 1.

        Only devices with a job that was traced in both calls are returned.
        """
        used_ns = {
            (key, device.id): device.busy_ns
            for key, summary in summaries.items()
            for device in summary.devices
        }
        passed_ns = now_ns - self._at_ns
        sums: dict[str, int] = {}
        for pair, total in used_ns.items():
            if pair in self._used_ns:
                sums[pair[1]] = sums.get(pair[1], 0) + total - self._used_ns[pair]
        self._used_ns, self._at_ns = used_ns, now_ns
        if passed_ns <= 0:
            return {}
        return {id: min(max(ns / passed_ns, 0.0), 1.0) for id, ns in sums.items()}


def with_busy(samples: Iterable[DeviceSample], ratios: Mapping[str, float]) -> list[DeviceSample]:
    """Return samples in which an absent busy ratio is filled from the device's jobs."""
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
    """Return the device time of a job: kernels, copies and its share of the time that was not
    observed, which is charged too. None for a job without a device."""
    if not gpu_milli:
        return None
    share = min(gpu_milli, MILLI)
    return sum(
        device.busy_ns + device.causes.not_observed_ns * share // MILLI
        for device in summary.devices
    )


def launch_ns(summary: TraceSummary) -> int | None:
    """Return the mean device time of a launch of a job, by which models of devices are compared.

    None for fewer than LAUNCHES_MIN launches, most of which are of the start, and where the error
    of their time is more than a quarter of it.
    """
    launches = sum(kernel.count + kernel.unseen for kernel in summary.kernels)
    total = sum(kernel.total_ns for kernel in summary.kernels)
    error = sum(kernel.error_ns for kernel in summary.kernels)
    if launches < LAUNCHES_MIN or not total or error * 4 > total:
        return None
    return max(1, round(total / launches))


def _trouble(summary: TraceSummary, told: Iterator[int]) -> str:
    """Return what is wrong with a job's ranks, for as many jobs as one observation may tell."""
    trouble = summary.collectives.trouble if summary.collectives is not None else ""
    return trouble[:TROUBLE_CHARS_MAX] if trouble and next(told) < TROUBLES_MAX else ""


def job_samples(
    running: Mapping[TaskKey, tuple[StartRecord, TraceSummary]],
) -> tuple[JobSample, ...]:
    """Return the device time used so far by jobs with a device, as far as it is traced."""
    told = itertools.count()
    samples = [
        JobSample(*key, used, _trouble(summary, told))
        for key, (record, summary) in sorted(running.items())
        if (used := device_ns(summary, record.gpu_milli)) is not None
    ]
    return tuple(samples[:JOB_SAMPLES_MAX])


def observation(
    id: int,
    node: str,
    t_ns: int,
    devices: Iterable[DeviceSample],
    jobs: tuple[JobSample, ...] = (),
    *,
    gangs: tuple[GangSample, ...] = (),
    verdicts: tuple[JobVerdict, ...] = (),
) -> Observation:
    """Return the observation of this moment; reads /proc."""
    return Observation(
        id=id,
        node=node,
        t_ns=t_ns,
        load_milli=host_facts.load_milli(),
        memory_free_bytes=host_facts.memory_free_bytes(),
        devices=tuple(devices),
        jobs=jobs,
        gangs=gangs,
        verdicts=verdicts,
    )
