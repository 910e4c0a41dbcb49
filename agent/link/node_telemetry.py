# SPDX-License-Identifier: Apache-2.0
"""The node's telemetry: its report whenever that changes, and one observation a second.

Drivers may block: a thread per card reads it, another thread searches for devices, and this module
uses what they have found.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from stoker.agent.agent_settings import AgentSettings
from stoker.agent.devices.host import processes
from stoker.agent.devices.readings import CardReadings
from stoker.agent.devices.registry import Devices
from stoker.agent.devices.samplers.sampled import Sampled
from stoker.agent.export.node_metrics import JobReading
from stoker.agent.health.sources import PROBE
from stoker.agent.jobs.spawner_messages import Feature
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.link import node_observation
from stoker.agent.link.job_verdicts import JobVerdicts, Summed
from stoker.agent.state import host_facts
from stoker.agent.tracing.trace_thread import Done, TraceThread
from stoker.native.errors import StokerError
from stoker.native.structured_log import structlog
from stoker.probes.kernels.job_trace import DeviceRow, TraceSummary
from stoker.scheduler.nouns import DeviceSample, GangSample, NodeReport, Observation, TaskKey

OBSERVE_EVERY_S = 1.0
CHECK_EVERY_S = 3.0
"""Seconds between two searches for foreign processes on devices."""
PAUSE_S = 0.25
"""Seconds before another check, whatever asks for it."""
NOT_REQUESTED = "not asked for"
"""The spawner's detail for a feature that its command line did not request: nothing is missing."""
SLOW_S = 10.0
"""Seconds after which a slow driver is logged; the agent goes on waiting for it."""
OCCUPIED_S = 2.0
"""The longest time that a start waits for the drivers of its devices."""

_T = TypeVar("_T")
_Traced = tuple[
    tuple[GangSample, ...],
    Mapping[TaskKey, tuple[StartRecord, TraceSummary]],
    Mapping[TaskKey, tuple[DeviceRow, ...]],
]
_log = structlog.get_logger("telemetry")


class NodeTelemetry:
    """The devices and facts of this node."""

    def __init__(self, setting: AgentSettings, tracer: TraceThread) -> None:
        self._setting = setting
        self._tracer = tracer
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="devices")
        self._busy = node_observation.DeviceLoad()
        self._verdicts = JobVerdicts()
        self._rescan = False
        self._due = asyncio.Event()
        """Set if the next check is due at once."""
        self.features: Mapping[str, Feature] = {}
        """The spawner's features; set once it has answered."""
        instance = setting.state.instance
        self._gangs: tuple[GangSample, ...] = ()
        """The newest samples of ranks."""
        self.samples: tuple[DeviceSample, ...] = ()
        """The samples of the newest observation."""
        self._drain = ""
        """The reason of the devices' health for which the node takes no jobs, or empty."""
        self._refused = ""
        """The reason of the node's own shortage, likewise."""
        self.xids: Callable[[], str] = lambda: ""
        """Returns the sources of Xids, if the node can have any; set by the daemon."""
        self._xids = ""
        """The sources of Xids in the newest report."""
        self.unfenced: Callable[[], str] = lambda: ""
        """Returns why jobs cannot be frozen here, or empty; set by the daemon."""
        self._unfenced = ""
        """The answer of `unfenced` in the newest report."""
        self.ping = ""
        """The address at which the node answers pings, or empty; set by the daemon."""
        self.cgroups = False
        """True if jobs have cgroups, which tell their processes from others."""
        self.summarized: Callable[[Mapping[TaskKey, tuple[StartRecord, TraceSummary]]], None] = (
            lambda found: None
        )
        """Takes the summaries of all traced jobs once a second."""
        self.devices = Devices.of(
            {"device": setting.config.device},
            lambda pid: processes.in_jobs(pid, instance, self.cgroups),
            setting.agent / "devices.json",
            setting.boot_id,
        )

    async def report(self) -> NodeReport:
        """Search for devices and describe the node."""
        await self._in_thread(self.devices.scan)
        return self._report()

    def rescan(self) -> None:
        """Search for devices soon, where a check looks only for foreign processes."""
        self._rescan = True
        self._due.set()

    def troubled(self) -> None:
        """Check soon: the trouble of some card has begun or is over."""
        self._due.set()

    async def occupied(self, ids: Collection[str]) -> dict[str, str]:
        """Return device id -> why nothing may start there now, of these devices.

        The next report follows soon, so that the scheduler places nothing there meanwhile.
        """
        try:
            async with asyncio.timeout(OCCUPIED_S):
                found = await asyncio.to_thread(self.devices.occupied, ids)
        except TimeoutError:
            found = dict.fromkeys(ids, f"its driver did not say in {OCCUPIED_S:g} s who uses it")
        if found:
            self._due.set()
        return found

    def judge(
        self, sick: Mapping[str, str], warned: Mapping[str, str], drain: str
    ) -> NodeReport | None:
        """Set the verdict of health on devices and node; return the new report if it changes."""
        changed = self.devices.judge(sick, warned)
        changed, self._drain = changed or drain != self._drain, drain
        return self._report() if changed else None

    def refuse(self, why: str) -> NodeReport | None:
        """Set why the node can launch no jobs, or that it can; return the new report if it
        changes."""
        changed, self._refused = why != self._refused, why
        return self._report() if changed else None

    async def changes(self) -> AsyncIterator[NodeReport]:
        """Yield the report each time anything in it has changed."""
        while True:
            await self._until_check()
            again, self._rescan = self._rescan, False
            changed = await self._in_thread(self.devices.scan if again else self.devices.check)
            if changed or self.xids() != self._xids or self.unfenced() != self._unfenced:
                yield self._report()

    async def _until_check(self) -> None:
        """Wait CHECK_EVERY_S, or until a check is due at once."""
        await asyncio.sleep(PAUSE_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CHECK_EVERY_S - PAUSE_S):
                await self._due.wait()
        self._due.clear()

    async def observations(self) -> AsyncIterator[Observation]:
        """Yield an observation each second; a missed second is skipped."""
        number = self._setting.incarnation // 1_000_000_000
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            yield await self._observe(number)
            number += 1
            due = max(due + OBSERVE_EVERY_S, loop.time())
            await asyncio.sleep(due - loop.time())

    def cards(self) -> Iterator[tuple[str, bool, Sampled]]:
        """Yield the id of each card that is read, whether it is simulated, and its points."""
        samplers = self.devices.samplers
        for card in samplers.cards():
            if (found := samplers.get(card.id)) is not None:
                yield card.id, bool(card.sim), found

    def kind(self, device: str) -> str | None:
        """Return the kind of a device; None if there is none of this id. For any thread."""
        return next((each.kind for each in self.devices.known if each.id == device), None)

    def card_readings(self, device: str) -> CardReadings | None:
        """Return the newest readings of a card; None if no driver is read. For any thread."""
        found = self.devices.samplers.get(device)
        return found.readings() if found is not None else None

    def close(self) -> None:
        """Stop reading drivers; a thread that hangs in one is left behind."""
        self._worker.shutdown(wait=False, cancel_futures=True)
        self.devices.close()

    @property
    def counters(self) -> Mapping[str, int]:
        """The counters of the threads that read cards."""
        return self.devices.samplers.counters()

    async def _observe(self, number: int) -> Observation:
        samples = self.devices.sample()
        gangs, running, held = await self._traced(samples)
        self.summarized(running)
        summaries = {key: summary for key, (_, summary) in running.items()}
        ratios = self._busy.ratios(summaries, time.monotonic_ns())
        filled = node_observation.with_busy(samples, ratios)
        self.samples = tuple(filled)
        used = node_observation.job_samples(running)
        verdicts = self._verdicts.of(_sums(summaries, held), time.monotonic_ns())
        return node_observation.observation(
            number,
            self._setting.node,
            time.time_ns(),
            filled,
            used,
            gangs=gangs,
            verdicts=verdicts,
        )

    async def _traced(self, samples: tuple[DeviceSample, ...]) -> _Traced:
        """Return what the tracing thread tells of traced jobs; nothing where there are none."""
        if not self._tracer.busy:
            self._gangs = ()
            return (), {}, {}
        self._tracer.sampled(samples, time.monotonic_ns())
        # They are asked for at once: a thread without a CPU answers all three when it has one.
        return await asyncio.gather(self._gang_samples(), self._summaries(), self._held())

    async def _gang_samples(self) -> tuple[GangSample, ...]:
        """Return what the tracing thread told last of the ranks of jobs. If that was for an earlier
        observation, the samples say so, and an answer that is late is for the next one."""
        await self._call_tracer(self._tracer.gangs, None, self._keep_gangs)
        return self._gangs

    def _keep_gangs(self, told: tuple[GangSample, ...]) -> None:
        self._gangs = told

    async def _held(self) -> Mapping[TaskKey, tuple[DeviceRow, ...]]:
        """Return the devices of traced jobs that have nothing to summarize."""
        nothing: Mapping[TaskKey, tuple[DeviceRow, ...]] = {}
        return await self._call_tracer(self._tracer.held, nothing)

    @property
    def idle(self) -> Mapping[TaskKey, float]:
        """The share of the past 10 to 20 s in which nobody used the devices of each judged job."""
        return self._verdicts.idle

    async def readings(self) -> tuple[JobReading, ...]:
        """Return values for metrics of all traced jobs; none if the tracing thread has no time."""
        if not self._tracer.busy:
            return ()
        return await self._call_tracer(self._tracer.readings, ())

    async def _summaries(self) -> dict[TaskKey, tuple[StartRecord, TraceSummary]]:
        """Return summaries of all traced jobs; none if the tracing thread has no time."""
        return await self._call_tracer(self._tracer.summaries, {})

    async def _call_tracer(
        self, order: Callable[[Done], None], nothing: _T, keep: Done = lambda result: None
    ) -> _T:
        """Return the tracing thread's answer, or `nothing`; `keep` takes it even if it is late."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(result: Any) -> None:
            if not isinstance(result, StokerError):
                keep(result)
            if not answer.done():
                answer.set_result(nothing if isinstance(result, StokerError) else result)

        order(done)
        finished, _ = await asyncio.wait((answer,), timeout=OBSERVE_EVERY_S)
        return await answer if finished else nothing

    def _report(self) -> NodeReport:
        setting = self._setting
        self._unfenced = self.unfenced()
        return NodeReport(
            node=setting.node,
            boot_id=setting.boot_id,
            incarnation=setting.incarnation,
            cpu_milli=host_facts.cpu_milli(),
            memory_bytes=host_facts.memory_bytes(),
            devices=self.devices.known,
            missing=(*self._missing(), *self.devices.missing, *setting.missing),
            labels=setting.labels,
            drain="; ".join(filter(None, (self._refused, self._drain))),
            unfenced=self._unfenced,
            instance=setting.instance,
            ping=self.ping,
            key=setting.key,
        )

    def _missing(self) -> list[str]:
        """Return what the spawner and the kernel do not support here, with the reasons."""
        missing = [
            f"{name}: {feature.detail}"
            for name, feature in self.features.items()
            if not feature.works and feature.detail != NOT_REQUESTED
        ]
        if self._unfenced:
            missing.append(f"fence: {self._unfenced}")
        reasons: dict[str, list[str]] = {}
        xids = self._xids = self.xids()
        for probe in self._tracer.probes:
            if probe.state != "attached" and not (xids and probe.id == PROBE):
                reasons.setdefault(probe.reason, []).append(probe.id)
        if ", not from" in xids:
            missing.append(xids)
        return missing + [f"{', '.join(ids)}: {why}" for why, ids in reasons.items()]

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        work = asyncio.get_running_loop().run_in_executor(self._worker, call)
        done, _ = await asyncio.wait((work,), timeout=SLOW_S)
        if not done:
            _log.warning("a device driver is slow", seconds=SLOW_S)
        return await work


def _sums(
    summaries: Mapping[TaskKey, TraceSummary], held: Mapping[TaskKey, tuple[DeviceRow, ...]]
) -> dict[TaskKey, Summed]:
    """Return the sums of all traced jobs that hold devices, also of those that use none."""
    sums = {key: Summed(each.devices, each.kernels) for key, each in summaries.items()}
    sums |= {key: Summed(devices) for key, devices in held.items() if key not in sums}
    return {key: summed for key, summed in sums.items() if summed.devices}
