# SPDX-License-Identifier: Apache-2.0
"""The agent's hands: gives starts and stops to the spawner, and turns its events into the core's.

Owns the order of a start (its record, then the spawner) and what must be kept of an attempt while
it lives. Decides nothing: the core does.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable

import msgspec
import structlog

from stoker.agent.jobs import job_launch, steps
from stoker.agent.jobs.job_launch import JobPlace
from stoker.agent.jobs.spawner import Spawner
from stoker.agent.jobs.spawner_messages import Event as SpawnerEvent
from stoker.agent.jobs.spawner_messages import Exited, KnownAttempt, Launch, Refusal, Started
from stoker.agent.jobs.start_records import Begun, Starts, begun
from stoker.agent.jobs.steps import Event, Key
from stoker.agent.jobs.user_homes import UserHomes
from stoker.agent.link import node_observation
from stoker.agent.tracing.trace_thread import TraceThread
from stoker.native.errors import BadRequest, NotFound, StokerError, Unavailable
from stoker.probes.kernels.job_trace import TraceSummary
from stoker.scheduler.nouns import DeviceInfo, StartJob

RETRY_S = 0.2
SHORT_S = (0.1, 0.2, 0.4, 0.8, 1.6, *(2.0,) * 14)
"""Pauses before a start that the spawner has nothing for is given to it again, half a minute in
all; then it is told as never started, and asked for again."""
SHORT = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EBUSY})
"""What the spawner refuses for the moment alone: no process, no memory, no slot."""

UNSEEN = "its use of devices was not observed: charged as held"
"""Beside the reason of the end of a job whose tracer was not there."""

_log = structlog.get_logger("actuator")

Post = Callable[[Event], None]
"""Gives an event to the core."""


class JobExecutor:
    """Carries out Start, Stop, Settle and Acknowledge; every answer goes through `post`."""

    def __init__(
        self,
        spawner: Spawner,
        *,
        starts: Starts,
        place: JobPlace,
        tracer: TraceThread,
        devices: Callable[[], tuple[DeviceInfo, ...]],
        post: Post,
    ) -> None:
        self._spawner = spawner
        self._starts = starts
        self._place = place
        self._tracer = tracer
        self._devices = devices
        self._post = post
        self._homes = UserHomes()
        self._exited: dict[Key, Exited] = {}
        self._traced: set[Key] = set()
        self._short: dict[Key, bool] = {}
        """Starts that the spawner has had no process for, and whether they are still wanted."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.changed: Callable[[int], None] = lambda job: None
        """Called when a job of this node starts or ends."""
        self.acknowledged: Callable[[Exited, bool, int], None] = lambda exited, traced, uid: None
        """Called when the log has the end of an attempt; with whether it was traced, and whose
        it was."""
        self.output_cap: Callable[[int, int], int] = lambda requested, promised: requested
        """(bytes asked for, what running jobs of the same user may write) -> what it may write."""
        self.counters: Counter[str] = Counter()

    # --- effects ----------------------------------------------------------------------------------

    def start(self, wanted: Iterable[StartJob]) -> None:
        """Give a batch to the spawner; what cannot even be described is refused here."""
        launches: list[Launch] = []
        records: list[Begun] = []
        promised: Counter[int] = Counter()
        for each in wanted:
            try:
                launch, record = self._prepare(each, promised)
            except (StokerError, OSError) as error:
                self._refuse((each.job, each.attempt), error)
                continue
            launches.append(launch)
            records.append(record)
        try:
            self._starts.add(records)
        except OSError as error:
            for record in records:
                self._refuse(record.key, error)
            return
        if launches:
            self._spawn(self._give(launches))

    def stop(self, key: Key, reason: str) -> None:
        """Tell the spawner to end an attempt."""
        if key in self._short:
            self._short[key] = False
        self._spawn(self._stop(key, reason))

    def settle(self, key: Key) -> None:
        """Have the trace of an ended job written, then say so."""
        record = self._starts.get(key)
        self._traced.add(key)

        def done(result: object) -> None:
            spent, note = None, ""
            if isinstance(result, TraceSummary):
                spent = node_observation.device_ns(result, record.gpu_milli)
                note = UNSEEN if "tracer" in result.absent else ""
            self._post(steps.TraceSettled(key, spent, note))

        self._tracer.end(record, self._exited[key], done)

    def acknowledge(self, keys: Iterable[Key]) -> None:
        """The spawner may forget these; so may we."""
        ended = [exited for key in keys if (exited := self._exited.pop(key, None)) is not None]
        if ended:
            self._spawn(self._acknowledge(ended))
        uids = {key: self._starts.get(key).uid for key in keys}
        self._starts.drop(keys)
        for exited in ended:
            key = (exited.job, exited.attempt)
            self.acknowledged(exited, key in self._traced, uids[key])
            self._traced.discard(key)

    # --- what the spawner says --------------------------------------------------------------------

    def heard(self, event: SpawnerEvent) -> Event:
        """One event of the spawner, in the core's words."""
        key = (event.job, event.attempt)
        record = self._starts.get(key)
        self.changed(event.job)
        if isinstance(event, Started):
            if record.trace != "off":
                self._tracer.begin(record, event)
            return steps.Ran(key, record.decision, event.t_ns)
        self._exited[key] = event
        outcome = job_launch.outcome(event, record.decision)
        if outcome is None:
            self.counters["never_started"] += 1
            _log.warning("an attempt was not started", job=event.job, why=event.reason)
            return steps.NeverStarted(key, event.t_ns)
        lived_ns = event.t_ns - event.started_ns if event.started_ns else 0
        traced = record.trace != "off" and self._tracer.used(record, lived_ns)
        return steps.JobEnded(outcome, stopped=event.cause == "stopped", traced=traced)

    async def known(self, asked: frozenset[Key]) -> steps.SpawnerHas:
        """Everything the spawner has; `asked` is what it must have, taken before this call."""
        slots = await self._spawner.known()
        return steps.SpawnerHas(tuple(map(self._has, slots)), asked, time.time_ns())

    def exited(self, key: Key) -> Exited | None:
        """How an attempt ended, until the log has it."""
        return self._exited.get(key)

    def close(self) -> None:
        """Leave what is on its way; the spawner has it or will be asked again."""
        for task in self._tasks:
            task.cancel()

    # --- inside -----------------------------------------------------------------------------------

    def _has(self, known: KnownAttempt) -> steps.Has:
        key = (known.job, known.attempt)
        news = self.heard(known.event) if known.event is not None else None
        assert news is None or isinstance(news, steps.Ran | steps.JobEnded | steps.NeverStarted)
        return steps.Has(key, self._starts.get(key).decision, news)

    def _prepare(self, start: StartJob, promised: Counter[int]) -> tuple[Launch, Begun]:
        granted = job_launch.grant(self._devices(), start.decision.devices)
        traced = job_launch.wants_trace(start.spec, self._place)
        launch = job_launch.launch(
            start, granted, self._homes.of(start.owner.uid, start.owner.gid), self._place, traced
        )
        running = self._starts.promised(launch.uid) + promised[launch.uid]
        most = self.output_cap(launch.output_bytes_max, running)
        promised[launch.uid] += most
        launch = msgspec.structs.replace(launch, output_bytes_max=most)
        aside = job_launch.aside(start, granted, self._place) | gone(self._place) if traced else {}
        return launch, begun(start, tuple(device.id for device in granted), traced, aside, most)

    async def _give(self, launches: list[Launch]) -> None:
        """Until the spawner has answered: asking again for the same attempt is safe."""
        for pause_s in SHORT_S:
            launches = self._short_of(launches, await self._start_batch(launches))
            if not launches:
                return
            self.counters["spawner_short"] += 1
            await asyncio.sleep(pause_s)
            launches = [each for each in launches if self._still_wanted(each)]
        for launch in launches:
            _log.warning("the spawner had nothing for a start", job=launch.job)
            self._never_given((launch.job, launch.attempt))

    async def _start_batch(self, launches: list[Launch]) -> list[Refusal]:
        """What it refused; launches that cannot even be packed are refused here, by themselves."""
        while True:
            try:
                return await self._spawner.start(launches)
            except BadRequest as error:
                if len(launches) == 1:
                    self.counters["start_refused"] += 1
                    launch, number = launches[0], errno.E2BIG
                    return [Refusal(launch.job, launch.attempt, number, not_launched(error))]
                # One of them is too long: find out which.
                return [refusal for each in launches for refusal in await self._start_batch([each])]
            except Unavailable as error:
                self.counters["spawner_unavailable"] += 1
                _log.warning("the spawner took no starts", error=str(error))
                await asyncio.sleep(RETRY_S)

    def _short_of(self, launches: list[Launch], refusals: list[Refusal]) -> list[Launch]:
        """Tell the core what was taken and what cannot be; what is neither yet."""
        refused = {(each.job, each.attempt): each for each in refusals}
        keys = [(launch.job, launch.attempt) for launch in launches]
        self._post(steps.Taken(tuple(key for key in keys if key not in refused)))
        for key, refusal in refused.items():
            if refusal.errno not in SHORT:
                self._post(steps.NotTaken(key, refusal.reason, time.time_ns()))
                self._starts.drop((key,))
        short = {key for key, refusal in refused.items() if refusal.errno in SHORT}
        for key in keys:
            if key in short:
                self._short.setdefault(key, True)
            else:
                self._short.pop(key, None)
        return [each for each in launches if (each.job, each.attempt) in short]

    def _still_wanted(self, launch: Launch) -> bool:
        """Whether nobody has stopped it meanwhile; if so it has never started."""
        key = (launch.job, launch.attempt)
        if not self._short[key]:
            self._never_given(key)
            return False
        return True

    def _never_given(self, key: Key) -> None:
        """It is told as never started: the core ends it, or asks for it again."""
        del self._short[key]
        self._post(steps.NeverStarted(key, time.time_ns()))

    async def _stop(self, key: Key, reason: str) -> None:
        while True:
            try:
                await self._spawner.stop(*key, reason, self._starts.get(key).grace_s)
                return
            except Unavailable as error:
                self.counters["spawner_unavailable"] += 1
                _log.warning("the spawner took no stop", job=key[0], error=str(error))
                await asyncio.sleep(RETRY_S)
            except NotFound:
                return  # it never had it or it is over; the comparison with it tells
            except StokerError as error:
                self.counters["stop_refused"] += 1
                _log.error("the spawner refused to stop a job", job=key[0], error=str(error))
                return

    async def _acknowledge(self, ended: list[Exited]) -> None:
        await self._spawner.acknowledge(*ended)

    def _refuse(self, key: Key, error: Exception) -> None:
        self.counters["start_refused"] += 1
        self._post(steps.NotTaken(key, not_launched(error), time.time_ns()))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def not_launched(error: Exception) -> str:
    """Why a start could not even be described, as a person reads it."""
    reason = error.message if isinstance(error, StokerError) else str(error)
    return f"it could not be launched: {reason}"


def gone(place: JobPlace) -> dict[str, str]:
    """Tracers whose library somebody removed after the agent had put it there, and what to do."""
    libraries = {"opencl": place.layer, **place.tracers}
    return {
        name: f"{library} is gone, so no program loads it; the agent puts it back when it starts"
        for name, library in libraries.items()
        if library and not os.path.exists(library)  # noqa: PTH110  # per job: no Path objects
    }
