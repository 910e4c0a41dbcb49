# SPDX-License-Identifier: Apache-2.0
"""The thread that drains the traces of all jobs of this node beside the agent's loop.

The host probes and every open JobTrace belong to this one thread, and a job's `trace.json` is on
disk before its end is reported. Draining releases the GIL (in C).
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from stoker.agent.export.node_metrics import JobReading
from stoker.agent.health import sources
from stoker.agent.jobs.attempt_folders import folder_name
from stoker.agent.jobs.folder_removal import FolderRemoval
from stoker.agent.jobs.job_audit import Audit
from stoker.agent.jobs.spawner_messages import Exited, Started
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.tracing.gang_samples import GangSamples, SampleTime
from stoker.agent.tracing.host_cost import HostMeter
from stoker.agent.tracing.job_calls import JobCalls
from stoker.agent.tracing.job_energy import EnergySource, nothing_read
from stoker.agent.tracing.job_governor import HostCost
from stoker.agent.tracing.job_throttles import NO_SOURCES, Sources
from stoker.agent.tracing.job_trace import FOLD_FILE, TracedJob
from stoker.agent.tracing.launch_throttle import LaunchThrottle
from stoker.agent.tracing.local_records import Bus
from stoker.agent.tracing.rank_notice import RankNotice
from stoker.agent.tracing.record_publisher import Allowance
from stoker.agent.tracing.ring_return import RingReturn
from stoker.agent.tracing.trace_candidate import TraceCandidate
from stoker.agent.tracing.trace_window import RecordSink
from stoker.mesh.wire.queries import TracingQuery
from stoker.mesh.wire.schema import TracingView
from stoker.native.errors import NotFound, Refused, StokerError
from stoker.native.structured_log import structlog
from stoker.probes.catalogue import SPAN_PROBES, ProbeState
from stoker.probes.host.host_probes import HostProbes
from stoker.probes.host.notices import Notice
from stoker.probes.kernels.job_trace import HOLD_WHOLE, DeviceRow, TraceSummary
from stoker.scheduler.nouns import DeviceSample, GangSample, TaskKey

DRAIN_EVERY_S = 0.05
LOOK_MAX_S = 0.2
"""Seconds between two looks for the first segment of a job without a device, at most."""
SHORT_NS = 1_000_000_000
"""A job that held a device for less than this time and never used it gets no summary, since that
would be empty."""
READ_EVERY_S = 1.0
"""Seconds between two readings of thread times."""
JOBS_MAX = 4096
"""The largest number of traced jobs; a further one is not traced and counts as refused."""
FULL_AT = 0.25
"""The fill of a ring above which it is drained again at once."""

_log = structlog.get_logger("tracing")


Done = Callable[[Any], None]
"""Called in the daemon's loop with the answer: a value, or a StokerError."""


class TraceThread:
    """The thread, its orders and its jobs. `post` runs a call in the daemon's loop."""

    def __init__(
        self,
        jobs: Path,
        segments: Path,
        post: Callable[..., None],
        *,
        node: str = "",
        bus: Bus | None = None,
    ) -> None:
        self._jobs_folder = jobs
        self.publish: Callable[[str, bytes], object] = lambda subject, data: None
        """Takes batches of records, in the daemon's loop; set by the daemon."""
        self.xid: Callable[[Notice], object] = lambda notice: None
        """Takes each Xid, in the tracing thread; set by the daemon."""
        self.ranks: Callable[[RankNotice], object] = lambda notice: None
        """Takes each rank that begins or ceases to keep others waiting, in the daemon's loop; set
        by the daemon."""
        self.ended: Callable[[JobReading], object] | None = None
        """Takes the final values of each traced job, in the daemon's loop; set by the daemon."""
        self.summarized: Callable[[StartRecord, TraceSummary], object] | None = None
        """Takes the last summary of each traced job, in the daemon's loop; set by the daemon."""
        self.throttle = LaunchThrottle()
        """Shares of the time in which launches begin, set by the power loop."""
        self.throttling: Sources = NO_SOURCES
        """The sources of what throttles devices, for the tracing thread; set by the daemon."""
        self.energy: EnergySource = nothing_read
        """The counters of energy, for the tracing thread; set by the daemon."""
        self._drain_idle = False
        self._sink = RecordSink(node, self._send, Allowance(), bus)
        self._segments = segments
        self._post = post
        self._orders: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._idle = False
        self._closing = False
        self._new: list[TraceCandidate] = []
        """Jobs to follow whose start came just now."""
        self._candidates: dict[TaskKey, TraceCandidate] = {}
        self._traced: dict[TaskKey, TracedJob] = {}
        self._by_cgroup: dict[int, TracedJob] = {}
        self._early: dict[TaskKey, int] = {}
        """Jobs that are followed before they run, and their cgroups; of the thread."""
        self._host: HostProbes | None = None
        self._calls: JobCalls | None = None
        self._dropped: dict[str, int] = {}
        self._read_at = 0.0
        self._fed_ns: int | None = None
        self._meter = HostMeter()
        self._ring = RingReturn()
        self.probes: list[ProbeState] = []
        """The kernel's answer for each host probe; set before `start` is done."""
        self.counters: Counter[str] = Counter({"trace_refused": 0, "trace_failed": 0})
        self._audit = Audit(self.counters, self._number_of)
        self._removal = FolderRemoval()
        self._gangs = GangSamples(self._key_of, self.counters)
        self._thread = threading.Thread(target=self._run, name="tracing", daemon=True)

    # --- from the daemon's loop -------------------------------------------------------------------

    def start(self, jobs_cgroup: Path | None, done: Done) -> None:
        """Start the thread and attach the host probes; `done` when the kernel has answered."""
        self._order(lambda: self._answer(done, lambda: self._attach(jobs_cgroup)))
        self._thread.start()

    def begin(self, record: StartRecord, started: Started, *, adopted: bool = False) -> None:
        """Watch a running job; a second call changes nothing. `adopted`: an earlier agent may have
        traced it.

        The threads of a job with a device or with a full trace are followed at once. Any other job
        costs nothing until one of its processes makes a segment; the thread never hears of a job
        that is over before that.
        """
        candidate = TraceCandidate(record, started, _offset_ns(), adopted)
        self._candidates[record.key] = candidate
        if candidate.follow:
            if not self._new:
                asyncio.get_running_loop().call_soon(self._begin_new)
            self._new.append(candidate)
        elif self._idle:
            self._wake.set()

    @property
    def follows(self) -> bool:
        """True if the kernel records the threads of jobs, as far as it has answered."""
        return any(probe.id in SPAN_PROBES and probe.state == "attached" for probe in self.probes)

    def follow(self, key: TaskKey, cgroup_id: int, done: Done) -> None:
        """Have the kernel record every thread of a job with a full trace before it has one; `done`
        gets None when it does, or the StokerError of why it cannot."""
        self._order(lambda: self._answer(done, lambda: self._follow(key, cgroup_id)))

    def forget(self, key: TaskKey) -> None:
        """Forget a job that was to be followed and never ran."""
        self._order(lambda: self._drop(key))

    def _begin_new(self) -> None:
        """Have the thread follow new jobs, except those whose end came together with their start,
        as that of many jobs in a burst."""
        new, self._new = self._new, []
        for candidate in new:
            if not candidate.over:
                self._order(partial(self._begin, candidate))

    def used(self, record: StartRecord, lived_ns: int, *, cleared: bool) -> bool:
        """True if an ended job has a trace to settle; otherwise the job is forgotten here.

        `cleared`: the shim found its folder of segments empty and removed it.
        """
        candidate = self._candidates.pop(record.key, None)
        if self._has_trace(record, candidate, lived_ns, cleared):
            self._begin_new()  # the thread must not hear of its end first
            return True
        if candidate is not None:
            candidate.over = True
        if candidate is None or candidate.follow:
            self._orders.append(lambda: self._drop(record.key))
        return False

    def _has_trace(
        self, record: StartRecord, candidate: TraceCandidate | None, lived_ns: int, cleared: bool
    ) -> bool:
        traced = candidate is None or candidate.follow or candidate.adopted
        if not cleared and not self._clear(record.key):
            return True
        if traced and self._folded(record.key):
            return True
        return bool(record.gpu_milli) and (lived_ns >= SHORT_NS or self._counts_calls(candidate))

    def _counts_calls(self, candidate: TraceCandidate | None) -> bool:
        """True if the job's calls into libraries were counted, so that even a short one without a
        segment has something to tell."""
        if candidate is None or self._calls is None:
            return False
        return self._calls.counted(candidate.started.cgroup_id)

    def _clear(self, key: TaskKey) -> bool:
        """Remove the folder of segments; False if it holds some."""
        try:
            os.rmdir(f"{self._segments}/{folder_name(key)}")  # noqa: PTH106  # per job
        except FileNotFoundError:
            return True  # settled by an earlier agent, or never made
        except OSError:
            return False
        return True

    def _folded(self, key: TaskKey) -> bool:
        """True if there is a fold: a drain removes the segment of a process that has ended, so a
        folder without segments does not show that there were none."""
        return os.path.exists(f"{self._jobs_folder}/{folder_name(key)}/{FOLD_FILE}")  # noqa: PTH110

    def end(self, record: StartRecord, exited: Exited, done: Done) -> None:
        """Drain the rest of an ended job and write its summary, then call `done` with it."""
        offset = _offset_ns()
        began = (exited.started_ns or exited.t_ns) - offset
        self._order(lambda: self._end(record, exited, began, exited.t_ns - offset, done))

    def summaries(self, done: Done) -> None:
        """Pass `done` the summaries of all traced jobs: TaskKey -> (StartRecord, TraceSummary)."""
        self._order(lambda: self._answer(done, self._summaries))

    def so_far(self, key: TaskKey, done: Done) -> None:
        """Pass `done` the TraceSummary of one traced job up to now; NotFound if it is not one."""
        self._order(lambda: self._answer(done, lambda: self._so_far(key)))

    def held(self, done: Done) -> None:
        """Pass `done` the devices of traced jobs that have nothing to summarize: TaskKey -> a tuple
        of DeviceRow."""
        self._order(lambda: self._answer(done, self._held))

    def gangs(self, done: Done) -> None:
        """Pass `done` what an observation tells of the ranks of jobs: a tuple of GangSample."""
        self._order(lambda: self._answer(done, self._gang_samples))

    def sampled(self, samples: Sequence[DeviceSample], t_ns: int) -> None:
        """Add samples of devices at `t_ns`, CLOCK_MONOTONIC, to the timelines of their jobs with
        the next drain."""
        self._orders.append(lambda: self._sampled(samples, t_ns))

    def readings(self, done: Done) -> None:
        """Pass `done` the values for metrics of all traced jobs: a tuple of JobReading."""
        self._order(lambda: self._answer(done, self._readings))

    def timeline(self, key: TaskKey, path: Path, done: Done) -> None:
        """Write the Perfetto file of a traced job to `path`."""
        self._order(lambda: self._answer(done, lambda: self._timeline(key, path)))

    def tracing(self, query: TracingQuery, done: Done) -> None:
        """Carry out a user's query about a running job and pass `done` a TracingView."""
        self._order(lambda: self._answer(done, lambda: self._tracing(query)))

    @property
    def busy(self) -> bool:
        """True if any job is being traced now."""
        return bool(self._traced)

    def close(self) -> None:
        """Stop draining and leave every fold on disk, where a later agent continues."""
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=0.5)

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.append(order)
        self._wake.set()

    def wait_for_xids(self) -> None:
        """Drain even if nothing is traced: Xids reach the agent only through the host probes."""
        self._drain_idle = any(p.id == sources.PROBE and p.state == "attached" for p in self.probes)
        self._wake.set()

    # --- in the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        filling = False
        due_s = 0.0
        while not self._closing:
            # `_idle` is set before candidates are looked at, so that a new one wakes the thread. If
            # it looks again soon by itself, no start has to wake it.
            self._idle = True
            busy = bool(filling or self._traced or self._candidates or self._drain_idle)
            self._idle = not busy
            rest_s = self._rest()
            if not filling:
                self._wake.wait(max(due_s - time.monotonic(), 0) if busy else rest_s)
            self._idle = False
            self._wake.clear()
            while self._orders:
                self._guard(self._orders.popleft())
            # In a burst orders come far more often than anything needs to be drained.
            if filling or time.monotonic() >= due_s:
                self._look()
                filling = self._drain()
                due_s = time.monotonic() + DRAIN_EVERY_S
        for job in self._traced.values():
            job.close()
        if self._host is not None:
            self._host.close()
        if self._calls is not None:
            self._calls.close()

    def _rest(self) -> float | None:
        """Give the ring of spans back after some time without a job; the seconds until then."""
        used = bool(self._traced or self._early)
        return self._ring.look(self._host, used=used, now_s=time.monotonic())

    def _guard(self, order: Callable[[], None]) -> None:
        """Run one order; its failure is logged and counted and never ends the thread."""
        try:
            order()
        except Exception as error:
            self.counters["trace_failed"] += 1
            _log.exception("a trace order failed", error=str(error))

    def _attach(self, jobs_cgroup: Path | None) -> None:
        if jobs_cgroup is not None:
            self._host = HostProbes.attach(jobs_cgroup)
            self.probes = self._host.states
            self._calls = JobCalls(jobs_cgroup, self._jobs_folder.parent)
            self._calls.start()

    def _look(self) -> None:
        """Begin the trace of each candidate that has made its first segment."""
        now_s = time.monotonic()
        for key, candidate in list(self._candidates.items()):
            if candidate.look_at > now_s:
                continue
            candidate.wait_s = min(candidate.wait_s * 1.5, LOOK_MAX_S)
            candidate.look_at = now_s + candidate.wait_s
            if _has_entry(f"{self._segments}/{folder_name(key)}"):
                self._candidates.pop(key, None)
                self._guard(partial(self._first_segment, candidate))

    def _first_segment(self, candidate: TraceCandidate) -> None:
        self._begin(candidate)
        job = self._traced.get(candidate.record.key)
        if job is not None:
            job.open()

    def _begin(self, candidate: TraceCandidate) -> None:
        record, started = candidate.record, candidate.started
        if candidate.over or record.key in self._traced:
            return
        if len(self._traced) >= JOBS_MAX:
            self.counters["trace_refused"] += 1
            self.throttle.answered(record.key, HOLD_WHOLE, (), "too many jobs are traced")
            return
        began_ns = started.t_ns - candidate.offset_ns
        job = self._add(record, began_ns, started.cgroup_id, adopted=candidate.adopted)
        job.follow(early=record.key in self._early)

    def _follow(self, key: TaskKey, cgroup_id: int) -> None:
        if self._host is not None and cgroup_id:
            self._early[key] = cgroup_id
            self._host.follow(cgroup_id, full=True)
            self._host.opt_in(cgroup_id, stacks=True, faults=True)

    def _add(
        self, record: StartRecord, began_ns: int, cgroup_id: int, *, adopted: bool = True
    ) -> TracedJob:
        job = TracedJob(
            record,
            self._segments / folder_name(record.key),
            self._jobs_folder / folder_name(record.key),
            began_ns=began_ns,
            cgroup_id=cgroup_id,
            host=self._host,
            dropped=self._dropped,
            feed=self._feed_spans,
            sink=self._sink,
            calls=self._calls,
            removal=self._removal,
            throttling=self.throttling,
            energy=self.energy,
            adopted=adopted,
        )
        if not self._traced:
            self._meter.restart()
        self._traced[record.key] = job
        if cgroup_id:
            self._by_cgroup[cgroup_id] = job
        return job

    def _end(
        self, record: StartRecord, exited: Exited, began_ns: int, ended_ns: int, done: Done
    ) -> None:
        job = self._traced.get(record.key)
        if job is None:
            job = self._add(record, began_ns, exited.cgroup_id)
            job.follow_ended(early=record.key in self._early)
        try:
            self._drain_calls()
            self._feed_spans()
            cpu_ns = exited.usage.cpu_ns if exited.usage is not None else None
            self._answer(done, lambda: job.finish(ended_ns, cpu_ns))
            self._post_final(job)
        finally:
            self._drop(record.key)

    def _post_final(self, job: TracedJob) -> None:
        """Pass on the final values before the fold is closed: the next export comes too late."""
        if self.summarized is not None and job.last is not None:
            self._post(self.summarized, job.record, job.last)
        reading = job.reading(_offset_ns()) if self.ended is not None else None
        if reading is not None:
            self._post(self.ended, reading)

    def _drop(self, key: TaskKey) -> None:
        job = self._traced.pop(key, None)
        early = self._early.pop(key, None)
        if job is not None:
            self._by_cgroup.pop(job.cgroup_id, None)
            job.close()
        elif early is not None and self._host is not None:
            self._host.unfollow(early)
        self.throttle.forget(key)

    def _so_far(self, key: TaskKey) -> TraceSummary:
        if (job := self._traced.get(key)) is None:
            raise NotFound(f"job {key.job} is not traced")
        return job.so_far(time.monotonic_ns())

    def _summaries(self) -> dict[TaskKey, tuple[StartRecord, TraceSummary]]:
        opened = {key: job.summary() for key, job in self._traced.items()}
        host = HostCost()
        if self._host is not None and self._traced:
            host = self._meter.newest(self._host, time.monotonic())
        for key, summary in opened.items():
            if summary is not None:
                if self._traced[key].govern(summary, host):
                    self._meter.restart()
            else:
                self._traced[key].govern_alone()
        return {
            key: (self._traced[key].record, summary)
            for key, summary in opened.items()
            if summary is not None
        }

    def _held(self) -> dict[TaskKey, tuple[DeviceRow, ...]]:
        """One pass over the kernel's tables gives the CPU times of all jobs."""
        now_ns = time.monotonic_ns()
        unfolded = {key: job for key, job in self._traced.items() if not job.folded}
        read = self._host.read_all() if unfolded and self._host is not None else {}
        found: dict[TaskKey, tuple[DeviceRow, ...]] = {}
        for key, job in unfolded.items():
            times = read.get(job.cgroup_id)
            totals = times.totals if times is not None else None
            found[key] = job.held(now_ns, totals.on_cpu_ns if totals is not None else None)
        return found

    def _gang_samples(self) -> tuple[GangSample, ...]:
        # Whoever comes in after this moment may be missing in what is drained.
        boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        at = SampleTime(time.monotonic_ns(), time.time_ns(), boot_ns)
        self._drain_calls()
        gangs = self._calls.gangs() if self._calls is not None else ()
        return self._gangs.of(gangs, at)

    def _key_of(self, cgroup_id: int) -> TaskKey | None:
        job = self._by_cgroup.get(cgroup_id)
        return job.record.key if job is not None else None

    def _sampled(self, samples: Sequence[DeviceSample], t_ns: int) -> None:
        for job in self._traced.values():
            job.add_samples(samples, t_ns)

    def _readings(self) -> tuple[JobReading, ...]:
        offset_ns = _offset_ns()
        found = [job.reading(offset_ns) for job in self._traced.values()]
        return tuple(reading for reading in found if reading is not None)

    def _timeline(self, key: TaskKey, path: Path) -> Path:
        job = self._traced.get(key)
        if job is None:
            raise NotFound(
                f"job {key.job} is not being traced",
                hint="Traced is what has devices (--gpus) and no --trace off, while it runs",
            )
        job.write_timeline(path)
        return path

    def _tracing(self, query: TracingQuery) -> TracingView:
        job = self._traced.get(query.key)
        if job is None:
            raise NotFound(f"no process of job {query.job} has called a device yet")
        return job.tracing(query)

    def _send(self, subject: str, data: bytes) -> None:
        self._post(self.publish, subject, data)

    def _answer(self, done: Done, call: Callable[[], Any]) -> None:
        """Call, and send the result or the error to the loop, where somebody waits for it."""
        try:
            result = call()
        except StokerError as error:
            result = error
        except Exception as error:
            self.counters["trace_failed"] += 1
            _log.exception("a trace could not be read", error=str(error))
            result = StokerError(f"the trace could not be read: {error}")
        self._post(done, result)

    def _drain(self) -> bool:
        """Drain every job once; True if some ring is filling up."""
        self._drain_calls()
        self._feed_spans()
        now_s = time.monotonic()
        if self._host is not None:
            self._meter.look(self._host, len(self._traced), now_s)
        read = now_s >= self._read_at
        if read:
            self._read_at = now_s + READ_EVERY_S
            self._guard(self._judge_ranks)
        fill = 0.0
        for job in list(self._traced.values()):
            try:
                share = self.throttle.share(job.record.devices)
                job.throttle(share)
                fill = max(fill, job.drain(read, self._fed_ns))
                if share < HOLD_WHOLE:
                    self.throttle.answered(job.record.key, share, job.answers(), job.unreachable)
            except Refused as error:  # a full disk: the rings keep their records
                self.counters["trace_refused"] += 1
                _log.warning("a trace cannot be stored", job=job.record.job, error=error.message)
            except Exception as error:
                self.counters["trace_failed"] += 1
                _log.exception("a trace is given up", job=job.record.job, error=str(error))
                job.give_up(str(error))
        return fill > FULL_AT

    def _drain_calls(self) -> None:
        if self._calls is not None and self._traced:
            self._guard(self._calls.drain)

    def _judge_ranks(self) -> None:
        """Report ranks that began or ceased to keep others waiting."""
        if self._calls is None or not self._traced:
            return
        for found in self._calls.judge():
            places = [self._by_cgroup[id].record for id in found.tasks if id in self._by_cgroup]
            home = self._by_cgroup.get(found.cgroup_id)
            record = home.record if home is not None else None
            self._post(self.ranks, RankNotice(found, record, tuple(places)))

    def _feed_spans(self) -> None:
        if self._host is None:
            return
        self._dropped = self._host.dropped()
        events = self._host.process_events()
        begun = {(each.job, each.pid) for each in events if each.kind == "exec"}
        if self._calls is not None and begun:
            self._calls.started(begun)
        critical = self._host.critical()
        self._audit.take(critical)
        for notice in critical:
            if notice.kind == "xid":
                self.xid(notice)
        self._audit.take(self._host.device_opens())
        fed_ns = time.monotonic_ns()
        for cgroup_id, spans in self._host.spans().items():
            job = self._by_cgroup.get(cgroup_id)
            if job is not None:
                job.add_spans(spans)
        self._fed_ns = fed_ns

    def _number_of(self, cgroup: int) -> int | None:
        """Return the number of the traced job whose cgroup this is."""
        job = self._by_cgroup.get(cgroup)
        return None if job is None else job.record.job


def _offset_ns() -> int:
    """Return CLOCK_REALTIME minus CLOCK_MONOTONIC."""
    return time.time_ns() - time.monotonic_ns()


def _has_entry(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return False
