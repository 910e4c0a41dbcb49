# SPDX-License-Identifier: Apache-2.0
"""What the node says of itself: its report when that changes, and one observation a second.

Drivers may block: each card is read by a thread of its own, devices are looked for in another one,
and what is said here comes from what those have found.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import structlog

from stoker.agent.agent_settings import AgentSettings
from stoker.agent.devices import holders
from stoker.agent.devices.registry import Devices
from stoker.agent.export.node_metrics import JobReading
from stoker.agent.health.sources import PROBE
from stoker.agent.jobs.spawner_messages import Feature
from stoker.agent.jobs.start_records import Begun
from stoker.agent.jobs.steps import Key
from stoker.agent.link import node_observation
from stoker.agent.state import host_facts
from stoker.agent.tracing.trace_thread import Done, TraceThread
from stoker.native.errors import StokerError
from stoker.probes.kernels.job_trace import TraceSummary
from stoker.scheduler.nouns import DeviceSample, NodeReport, Observation

OBSERVE_EVERY_S = 1.0
CHECK_EVERY_S = 3.0
"""How often it is asked who holds devices."""
LOOK_EVERY_S = 0.25
"""How often it is looked whether a card's driver still answers."""
NOT_ASKED = "not asked for"
"""What the spawner says of a feature that its command line did not name: nothing is missing."""
SLOW_S = 10.0
"""A driver that takes longer is waited for, and said so."""

_T = TypeVar("_T")
_log = structlog.get_logger("telemetry")


class NodeTelemetry:
    """Devices and facts of this node."""

    def __init__(self, setting: AgentSettings, tracer: TraceThread) -> None:
        self._setting = setting
        self._tracer = tracer
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="devices")
        self._busy = node_observation.DeviceLoad()
        self._rescan = False
        self.features: Mapping[str, Feature] = {}
        """What the spawner can do here; set once it has answered."""
        instance = setting.state.instance
        self.samples: tuple[DeviceSample, ...] = ()
        """Of the newest observation."""
        self._drain = ""
        self.xids: Callable[[], str] = lambda: ""
        """Where Xids are heard from, where there may be any; set by the daemon."""
        self._xids = ""
        """The same as the newest report has it."""
        self.cgroups = False
        """Whether jobs have cgroups, by which their processes are told from others."""
        self.devices = Devices.of(
            {"device": setting.config.device},
            lambda pid: holders.in_jobs(pid, instance, self.cgroups),
            setting.agent / "devices.json",
            setting.boot_id,
        )

    async def report(self) -> NodeReport:
        """Look for devices anew and describe the node."""
        await self._in_thread(self.devices.scan)
        return self._report()

    def rescan(self) -> None:
        """Look for devices anew at the next check, not only for who holds them."""
        self._rescan = True

    def judge(
        self, sick: Mapping[str, str], warned: Mapping[str, str], drain: str
    ) -> NodeReport | None:
        """What health says of devices and node; the new report if that changes it."""
        changed = self.devices.judge(sick, warned)
        changed, self._drain = changed or drain != self._drain, drain
        return self._report() if changed else None

    async def changes(self) -> AsyncIterator[NodeReport]:
        """The report, each time anything in it changed."""
        while True:
            await self._until_check()
            again, self._rescan = self._rescan, False
            changed = await self._in_thread(self.devices.scan if again else self.devices.check)
            if changed or self.xids() != self._xids:
                yield self._report()

    async def _until_check(self) -> None:
        """For CHECK_EVERY_S, or until a card gets into trouble or out of it."""
        before = self._troubled()
        for _ in range(round(CHECK_EVERY_S / LOOK_EVERY_S)):
            await asyncio.sleep(LOOK_EVERY_S)
            if self._rescan or self._troubled() != before:
                return

    def _troubled(self) -> frozenset[tuple[str, str]]:
        troubles = self.devices.samplers.troubles()
        return frozenset((id, state) for id, (state, _) in troubles.items())

    async def observations(self) -> AsyncIterator[Observation]:
        """One each second; a second that was missed is not made up for."""
        number = self._setting.incarnation // 1_000_000_000
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            yield await self._observe(number)
            number += 1
            due = max(due + OBSERVE_EVERY_S, loop.time())
            await asyncio.sleep(due - loop.time())

    def close(self) -> None:
        """Ask no driver any more; one that hangs is left behind."""
        self._worker.shutdown(wait=False, cancel_futures=True)
        self.devices.close()

    @property
    def counters(self) -> Mapping[str, int]:
        """Of the threads that read cards."""
        return self.devices.samplers.counters()

    async def _observe(self, number: int) -> Observation:
        samples = self.devices.sample()
        if self._tracer.busy:
            self._tracer.sampled(samples, time.monotonic_ns())
        running = await self._summaries()
        summaries = {key: summary for key, (_, summary) in running.items()}
        ratios = self._busy.ratios(summaries, time.monotonic_ns())
        filled = node_observation.with_busy(samples, ratios)
        self.samples = tuple(filled)
        used = node_observation.job_samples(running)
        return node_observation.observation(
            number, self._setting.node, time.time_ns(), filled, used
        )

    async def readings(self) -> tuple[JobReading, ...]:
        """Of the jobs that are being traced, for metrics; none if the thread has no time for it."""
        if not self._tracer.busy:
            return ()
        return await self._told(self._tracer.readings, ())

    async def _summaries(self) -> dict[Key, tuple[Begun, TraceSummary]]:
        """Of the jobs that are being traced; none if the tracing thread has no time for it."""
        if not self._tracer.busy:
            return {}
        return await self._told(self._tracer.summaries, {})

    async def _told(self, order: Callable[[Done], None], nothing: _T) -> _T:
        """What the tracing thread answers, or `nothing`."""
        found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(result: Any) -> None:
            if not found.done():
                found.set_result(nothing if isinstance(result, StokerError) else result)

        order(done)
        finished, _ = await asyncio.wait((found,), timeout=OBSERVE_EVERY_S)
        return await found if finished else nothing

    def _report(self) -> NodeReport:
        setting = self._setting
        return NodeReport(
            node=setting.node,
            boot_id=setting.boot_id,
            incarnation=setting.incarnation,
            cpu_milli=host_facts.cpu_milli(),
            memory_bytes=host_facts.memory_bytes(),
            devices=self.devices.known,
            missing=(*self._missing(), *self.devices.missing, *setting.missing),
            labels=setting.labels,
            drain=self._drain,
        )

    def _missing(self) -> list[str]:
        """What the spawner and the kernel cannot do here, with their reasons."""
        lacking = [
            f"{name}: {feature.detail}"
            for name, feature in self.features.items()
            if not feature.works and feature.detail != NOT_ASKED
        ]
        reasons: dict[str, list[str]] = {}
        xids = self._xids = self.xids()
        for probe in self._tracer.probes:
            if probe.state != "attached" and not (xids and probe.id == PROBE):
                reasons.setdefault(probe.reason, []).append(probe.id)
        if ", not from" in xids:
            lacking.append(xids)
        return lacking + [f"{', '.join(ids)}: {why}" for why, ids in reasons.items()]

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        work = asyncio.get_running_loop().run_in_executor(self._worker, call)
        done, _ = await asyncio.wait((work,), timeout=SLOW_S)
        if not done:
            _log.warning("a device driver is slow", seconds=SLOW_S)
        return await work
