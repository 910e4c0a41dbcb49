# SPDX-License-Identifier: Apache-2.0
"""The executor of the core's effects on jobs: it sends starts and stops to the spawner and turns
the spawner's events into the core's.

The record of a start is written before the spawner gets it. The executor decides nothing.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

import msgspec

from stoker.agent.followed_starts import FollowedStarts
from stoker.agent.jobs import job_launch, steps
from stoker.agent.jobs.job_launch import JobPlace
from stoker.agent.jobs.spawner import Spawner
from stoker.agent.jobs.spawner_messages import Event as SpawnerEvent
from stoker.agent.jobs.spawner_messages import (
    Exited,
    KnownAttempt,
    Launch,
    Prepared,
    Refusal,
    Started,
)
from stoker.agent.jobs.start_records import StartRecord, StartRecords, start_record
from stoker.agent.jobs.steps import Event
from stoker.agent.jobs.user_homes import UserHomes
from stoker.agent.link import node_observation
from stoker.agent.tracing.trace_thread import TraceThread
from stoker.native.errors import BadRequest, NotFound, StokerError, Unavailable
from stoker.native.structured_log import structlog
from stoker.probes.kernels.job_trace import TraceSummary
from stoker.scheduler.nouns import MILLI, DeviceInfo, StartJob, TaskKey

RETRY_S = 0.2
SHORT_S = (0.1, 0.2, 0.4, 0.8, 1.6, *(2.0,) * 14)
"""Seconds between the tries of a start for which the spawner has no resources, half a minute in
all; after the last one the core hears that the start never began."""
SHORT = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EBUSY})
"""Errors of a refusal that passes: no process, no memory, no slot."""
OF_THE_NODE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, *SHORT}
)
"""Errors of the agent's own files and of the spawner's processes that speak of the node: another
one may well launch the same job."""

UNSEEN = "its use of devices was not observed: charged as held"
"""A remark beside the reason of the end of a job that had no tracer."""

_log = structlog.get_logger("job_executor")

Post = Callable[[Event], None]
"""Sends an event to the core."""
Occupied = Callable[[frozenset[str]], Awaitable[Mapping[str, str]]]
"""Returns device id -> "held by pid 812 (python3)", of those of the devices that are occupied."""


class JobExecutor:
    """Carries out what the core wants of the spawner and of traces; `post` takes all answers."""

    def __init__(
        self,
        spawner: Spawner,
        *,
        starts: StartRecords,
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
        self._followed = FollowedStarts(tracer, self.release)
        self._exited: dict[TaskKey, Exited] = {}
        self._traced: set[TaskKey] = set()
        self._short: dict[TaskKey, bool] = {}
        """Starts that wait to be sent -> True if they are still wanted: there are no resources for
        them, or their devices are being looked at."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.changed: Callable[[int], None] = lambda job: None
        """Called when a job of this node starts or ends."""
        self.failed_launch: Callable[[str], None] = lambda why: None
        """Called before it is posted that this node could not launch a job."""
        self.acknowledged: Callable[[Exited, bool, int], None] = lambda exited, traced, uid: None
        """Called with (end, traced, user id) when the log has the end of an attempt."""
        self.renew: Callable[[TaskKey], None] = lambda key: None
        """Called before a start is sent: removes what an earlier start of its name left."""
        self.occupied: Occupied = _nobody
        """Called with the devices that a start would have alone."""
        self.output_cap: Callable[[int, int], int] = lambda requested, promised: requested
        """(bytes requested, bytes that the user's running jobs may write) -> bytes that it may
        write."""
        self.begins: Callable[[StartJob], None] = lambda start: None
        """Called with each start that is recorded."""
        self.counters: Counter[str] = self._followed.counters

    # --- effects ----------------------------------------------------------------------------------

    def start(self, wanted: Iterable[StartJob]) -> None:
        """Send a batch to the spawner; a start that cannot be described is refused at once.

        Starts with whole devices are sent as soon as the host says that nobody uses these.
        """
        plain: list[StartJob] = []
        alone: list[tuple[StartJob, frozenset[str]]] = []
        for each in wanted:
            ids = whole_devices(each, self._devices) if each.decision.devices else None
            if ids:
                alone.append((each, ids))
            else:
                plain.append(each)
        if alone:
            self._short.update(dict.fromkeys((each.key for each, _ in alone), True))
            self._spawn(self._start_alone(alone))
        if plain:
            self._begin(plain)

    async def _start_alone(self, wanted: list[tuple[StartJob, frozenset[str]]]) -> None:
        """Start what finds its devices free; the others wait again, here or elsewhere."""
        held = await self.occupied(frozenset().union(*(ids for _, ids in wanted)))
        free: list[StartJob] = []
        for start, ids in wanted:
            key = start.key
            if not self._short[key]:
                self._never_sent(key)
                continue
            del self._short[key]
            if busy := sorted(ids & held.keys()):
                why = f"device {busy[0]} is occupied: {held[busy[0]]}"
                self.counters["device_occupied"] += 1
                _log.warning("a start met an occupied device", job=key.job, why=why)
                self._post(steps.NotTaken(key, why, time.time_ns(), "pending"))
            else:
                free.append(start)
        if free:
            self._begin(free)

    def _begin(self, wanted: Iterable[StartJob]) -> None:
        launches: list[Launch] = []
        records: list[StartRecord] = []
        begun: list[StartJob] = []
        promised: Counter[int] = Counter()
        missing = gone(self._place)
        for each in wanted:
            try:
                launch, record = self._prepare(each, promised, missing)
            except (StokerError, OSError) as error:
                self._refuse(each.key, error)
                continue
            launches.append(launch)
            records.append(record)
            begun.append(each)
        try:
            self._starts.add(records)
        except OSError as error:
            for record in records:
                self.counters["start_refused"] += 1
                self._not_taken(record.key, str(error), error.errno)
            return
        for each in begun:
            self.begins(each)
        if launches:
            self._spawn(self._send(launches))

    def release(self, keys: tuple[TaskKey, ...]) -> None:
        """Have the spawner let tasks of gangs run."""
        self._spawn(self._release(keys))

    def stop(self, stop: steps.StopAttempt) -> None:
        """Have the spawner end an attempt."""
        if stop.key in self._short:
            self._short[stop.key] = False
        self._spawn(self._stop(stop))

    def settle(self, key: TaskKey) -> None:
        """Have the trace of an ended job written, then post TraceSettled."""
        record = self._starts.get(key)
        self._traced.add(key)

        def done(result: object) -> None:
            device_ns, launch_ns, note = None, None, ""
            if isinstance(result, TraceSummary):
                device_ns = node_observation.device_ns(result, record.gpu_milli)
                launch_ns = node_observation.launch_ns(result)
                note = UNSEEN if "tracer" in result.absent else ""
            self._post(steps.TraceSettled(key, device_ns, launch_ns, note))

        self._tracer.end(record, self._exited[key], done)

    def acknowledge(self, keys: Iterable[TaskKey]) -> None:
        """Acknowledge attempts at the spawner and forget them here: the log has their ends."""
        ended = [exited for key in keys if (exited := self._exited.pop(key, None)) is not None]
        if ended:
            self._spawn(self._acknowledge(ended))
        uids = {key: self._starts.get(key).uid for key in keys}
        self._starts.drop(keys)
        for exited in ended:
            key = exited.key
            self.acknowledged(exited, key in self._traced, uids[key])
            self._traced.discard(key)

    # --- the spawner's events ---------------------------------------------------------------------

    def core_event(self, event: SpawnerEvent) -> Event | None:
        """Return the core's event for one of the spawner; None if it concerns the tracer alone."""
        key = event.key
        record = self._starts.get(key)
        self.changed(event.job)
        if isinstance(event, Prepared):
            if record.trace == "full":
                self._followed.prepared(record, event.cgroup_id)
            if record.followed_first:
                return None
            return steps.Gathered(key, record.decision, event.t_ns)
        if isinstance(event, Started):
            if record.trace != "off":
                self._tracer.begin(record, event, adopted=self._starts.is_adopted(key))
            return steps.Ran(key, record.decision, event.t_ns)
        is_new = key not in self._exited
        self._exited[key] = event
        outcome = job_launch.outcome(event, record.decision, self._place.node)
        if event.of_the_node and is_new:
            self._failed_launch(event.reason)
        if outcome is None:
            self.counters["never_started"] += 1
            _log.warning("an attempt was not started", job=event.job, why=event.reason)
            if record.trace == "full":
                self._tracer.forget(key)
            why = job_launch.not_launched(self._place.node, event.reason)
            return steps.NeverStarted(key, event.t_ns, why if event.of_the_node else "")
        lived_ns = event.t_ns - event.started_ns if event.started_ns else 0
        traced = record.trace != "off" and self._tracer.used(
            record, lived_ns, cleared=event.cleared
        )
        return steps.JobEnded(outcome, stopped=event.cause == "stopped", traced=traced)

    async def known(self, expected: frozenset[TaskKey]) -> steps.SpawnerAttempts:
        """Return all attempts of the spawner; `expected`: those it had taken before this call."""
        slots = await self._spawner.known()
        return steps.SpawnerAttempts(tuple(map(self._has, slots)), expected, time.time_ns())

    def exited(self, key: TaskKey) -> Exited | None:
        """Return the end of an attempt until the log has it; None before and after."""
        return self._exited.get(key)

    def close(self) -> None:
        """Cancel open requests; the spawner has them, or the next agent sends them again."""
        for task in self._tasks:
            task.cancel()

    # --- inside -----------------------------------------------------------------------------------

    def _has(self, slot: KnownAttempt) -> steps.SpawnerAttempt:
        key = slot.key
        result = self.core_event(slot.event) if slot.event is not None else None
        kinds = steps.Gathered | steps.Ran | steps.JobEnded | steps.NeverStarted
        assert result is None or isinstance(result, kinds)
        return steps.SpawnerAttempt(key, self._starts.get(key).decision, result)

    def _prepare(
        self, start: StartJob, promised: Counter[int], missing: dict[str, str]
    ) -> tuple[Launch, StartRecord]:
        granted = job_launch.grant(self._devices(), start.decision.devices)
        traced = job_launch.wants_trace(start.spec, self._place)
        launch = job_launch.launch(
            start, granted, self._homes.of(start.owner.uid, start.owner.gid), self._place, traced
        )
        running = self._starts.promised(launch.uid) + promised[launch.uid]
        output_bytes_max = self.output_cap(launch.output_bytes_max, running)
        promised[launch.uid] += output_bytes_max
        alone = traced and start.spec.trace == "full" and start.gang is None
        followed_first = alone and self._tracer.follows
        launch = msgspec.structs.replace(
            launch, output_bytes_max=output_bytes_max, gathers=launch.gathers or followed_first
        )
        aside = job_launch.aside(start, granted, self._place) | missing if traced else {}
        devices = tuple(device.id for device in granted)
        record = start_record(
            start, devices, traced, aside, output_bytes_max, followed_first=followed_first
        )
        return launch, record

    async def _send(self, launches: list[Launch]) -> None:
        """Send launches until the spawner has answered; repeating one is safe."""
        refusals: list[Refusal] = []
        for wait_s in SHORT_S:
            refusals = await self._start_batch(launches)
            launches = self._short_of(launches, refusals)
            if not launches:
                return
            self.counters["spawner_short"] += 1
            await asyncio.sleep(wait_s)
            launches = [each for each in launches if self._is_wanted(each)]
        wanted = {launch.key for launch in launches}
        for refusal in refusals:
            if refusal.key in wanted:
                self._give_back(refusal)

    async def _start_batch(self, launches: list[Launch]) -> list[Refusal]:
        """Return the refusals of one batch, including launches that cannot be packed."""
        for launch in launches:
            self.renew(launch.key)
        while True:
            try:
                return await self._spawner.start(launches)
            except BadRequest as error:
                if len(launches) == 1:
                    self.counters["start_refused"] += 1
                    launch, number = launches[0], errno.E2BIG
                    return [Refusal(*launch.key, number, error.message)]
                # One of them is too long: send each alone to find it.
                return [refusal for each in launches for refusal in await self._start_batch([each])]
            except Unavailable as error:
                self.counters["spawner_unavailable"] += 1
                _log.warning("the spawner accepted no starts", error=str(error))
                await asyncio.sleep(RETRY_S)

    def _short_of(self, launches: list[Launch], refusals: list[Refusal]) -> list[Launch]:
        """Post the starts that were taken or refused; return those to try again."""
        refused = {each.key: each for each in refusals}
        keys = [launch.key for launch in launches]
        self._post(steps.Taken(tuple(key for key in keys if key not in refused)))
        for key, refusal in refused.items():
            if refusal.errno not in SHORT:
                self._not_taken(key, _refused(refusal), refusal.errno)
                self._starts.drop((key,))
        short = {key for key, refusal in refused.items() if refusal.errno in SHORT}
        for key in keys:
            if key in short:
                self._short.setdefault(key, True)
            else:
                self._short.pop(key, None)
        return [each for each in launches if each.key in short]

    def _is_wanted(self, launch: Launch) -> bool:
        """True if no stop came meanwhile; otherwise the start never began."""
        key = launch.key
        if not self._short[key]:
            self._never_sent(key)
            return False
        return True

    def _give_back(self, refusal: Refusal) -> None:
        """Post that the spawner has had no resources for a start for long: it waits again, and
        maybe for another node."""
        key, why = refusal.key, _refused(refusal)
        del self._short[key]
        _log.warning("the spawner had no resources for a start", job=key.job, why=why)
        if refusal.errno != errno.EBUSY:  # a node that is busy is well
            self._failed_launch(why)
        told = job_launch.not_launched(self._place.node, why)
        self._post(steps.NotTaken(key, told, time.time_ns(), "pending"))
        self._starts.drop((key,))

    def _never_sent(self, key: TaskKey) -> None:
        """Post that the start never began: the core ends it or requests it again."""
        del self._short[key]
        self._post(steps.NeverStarted(key, time.time_ns()))

    async def _release(self, keys: tuple[TaskKey, ...]) -> None:
        while True:
            try:
                await self._spawner.release(keys)
                return
            except Unavailable as error:
                self.counters["spawner_unavailable"] += 1
                _log.warning("the spawner accepted no release", error=str(error))
                await asyncio.sleep(RETRY_S)

    async def _stop(self, stop: steps.StopAttempt) -> None:
        key = stop.key
        grace_s = self._starts.get(key).grace_s if stop.grace_s is None else stop.grace_s
        while True:
            try:
                await self._spawner.stop(key, stop.reason, grace_s, stop.signal)
                return
            except Unavailable as error:
                self.counters["spawner_unavailable"] += 1
                _log.warning("the spawner accepted no stop", job=key.job, error=str(error))
                await asyncio.sleep(RETRY_S)
            except NotFound:
                return  # it is over or never came here; the next comparison shows which
            except StokerError as error:
                self.counters["stop_refused"] += 1
                _log.error("the spawner refused to stop a job", job=key.job, error=str(error))
                return

    async def _acknowledge(self, ended: list[Exited]) -> None:
        await self._spawner.acknowledge(*ended)

    def _refuse(self, key: TaskKey, error: Exception) -> None:
        self.counters["start_refused"] += 1
        self._not_taken(key, error.message if isinstance(error, StokerError) else str(error))

    def _not_taken(self, key: TaskKey, why: str, number: int | None = None) -> None:
        """Post that a start was refused; for the sake of this node it is no failure of the job."""
        told = job_launch.not_launched(self._place.node, why)
        if number in OF_THE_NODE:
            self._failed_launch(why)
            self._post(steps.NotTaken(key, told, time.time_ns(), "unlaunched"))
        else:
            self._post(steps.NotTaken(key, told, time.time_ns()))

    def _failed_launch(self, why: str) -> None:
        self.counters["not_launched"] += 1
        _log.warning("this node could not launch a job", why=why)
        self.failed_launch(f"it could not launch a job: {why}")

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _refused(refusal: Refusal) -> str:
    """Return why the spawner refused a start; an error of its own calls is named."""
    named = (
        f": {os.strerror(refusal.errno)}" if refusal.errno in OF_THE_NODE - {errno.EBUSY} else ""
    )
    return refusal.reason + named


def whole_devices(start: StartJob, devices: Callable[[], tuple[DeviceInfo, ...]]) -> frozenset[str]:
    """Return the cards of this node that a start would have alone."""
    whole = {share.index for share in start.decision.devices if share.milli >= MILLI}
    found = (each for index, each in enumerate(devices()) if index in whole) if whole else ()
    return frozenset(each.id for each in found if each.kind != "cpu")


async def _nobody(ids: frozenset[str]) -> Mapping[str, str]:
    return {}


def gone(place: JobPlace) -> dict[str, str]:
    """Return tracers whose library was removed after the agent had put it there, and what to do."""
    libraries = {"opencl": place.layer, **place.tracers}
    return {
        name: f"{library} is gone, so no program loads it; the agent puts it back when it starts"
        for name, library in libraries.items()
        if library and not os.path.exists(library)  # noqa: PTH110  # per job: no Path objects
    }
