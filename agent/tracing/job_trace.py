# SPDX-License-Identifier: Apache-2.0
"""The trace of one job, from its start to its summary on disk.

Its fold is opened with the first segment, which a process makes when it loads a tracer: until then
a job costs a few microseconds. Owns what only the agent can add to a fold: which host probes were
missing or late, and what they lost meanwhile.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from stoker.agent.export.node_metrics import Buckets, JobReading, top
from stoker.agent.jobs.folder_removal import FolderRemoval
from stoker.agent.jobs.start_records import Begun
from stoker.agent.tracing.detailed_probes import DetailedProbes
from stoker.agent.tracing.job_calls import JobCalls
from stoker.agent.tracing.job_governor import HostCost, JobGovernor
from stoker.agent.tracing.trace_window import RecordSink, TraceWindow
from stoker.agent.tracing.untraced_processes import UntracedProcesses, said, without
from stoker.mesh.wire.queries import TracingQuery
from stoker.mesh.wire.schema import TracingView
from stoker.native.errors import BadRequest, NotFound, NotSupported, Refused
from stoker.probes.calls.call_records import CallRow
from stoker.probes.catalogue import SPAN_PROBES
from stoker.probes.host.host_probes import HostProbes
from stoker.probes.host.pressure import JobPressure
from stoker.probes.host.wait_stacks import StackWait
from stoker.probes.kernels.clock_table import clock_table
from stoker.probes.kernels.job_trace import (
    HOLD_WHOLE,
    SPAN_BYTES,
    STORE_FILES,
    Causes,
    DeviceRow,
    JobTrace,
    TimelineCounts,
    TimeWindow,
    TracerAnswer,
    TraceSummary,
)
from stoker.scheduler.nouns import DeviceSample

SUMMARY_FILE = "trace.json"
TIMELINE_FILE = "trace.perfetto"
FOLD_FILE = STORE_FILES[0]

SPANS_HELD_MAX = 32_768
"""Thread spans kept for a job until its first segment; what is beyond is counted as lost."""

IDLE_CPU_SHARE = 0.1
"""Of its time; a job without a tracer that took more of one CPU may have used its devices."""
NO_TRACER = (
    "no process of the job had a tracer, so what it did with its devices is not observed and is "
    "charged as held"
)
NO_SEGMENT = "no process of the job has called a GPU runtime that stoker traces"


class TracedJob:
    """One job. Not for two threads; made by the tracing thread, ended by `finish` or `close`."""

    def __init__(
        self,
        begun: Begun,
        segments: Path,
        store: Path,
        *,
        began_ns: int,
        cgroup_id: int,
        host: HostProbes | None,
        dropped: Mapping[str, int],
        feed: Callable[[], None],
        way: RecordSink,
        calls: JobCalls | None = None,
        clearing: FolderRemoval | None = None,
    ) -> None:
        """`feed` brings the spans that wait in the ring to the jobs they belong to."""
        self._clearing = clearing or FolderRemoval()
        self.begun = begun
        self.window = TraceWindow(begun, store, way)
        self._governing: JobGovernor | None = None
        self.cgroup_id = cgroup_id
        self._segments, self._store = segments, store
        self._began_ns = began_ns
        self._host = host
        self._look = DetailedProbes(host, cgroup_id)
        self._calls = calls
        self._trace: JobTrace | None = None
        self._followed = False
        self._dropped = dropped
        self._feed = feed
        self._held: list[bytes] = []
        self._held_lost = 0
        self._absent: dict[str, str] = dict(begun.aside)
        self._given_up = False
        self._share = HOLD_WHOLE
        self.last: TraceSummary | None = None
        """The final summary, once it is on disk."""

    def follow(self) -> None:
        """Ask for spans of its threads; what the probes cannot give will be in the summary."""
        if self._followed or self.window.steering.wanted == "dormant":
            return  # a dormant job pays for nothing; the first window follows it
        host = self._host
        if self._calls is not None and self.cgroup_id:
            segments = self._segments if self.begun.devices else None
            self._calls.begin(self.begun.key, self.cgroup_id, segments)
        if host is None or not self.cgroup_id:
            self._absent["host"] = "without cgroups (no root) threads of jobs cannot be told apart"
            return
        spans = (state for state in host.states if state.id in SPAN_PROBES)
        refused = next((state for state in spans if state.state != "attached"), None)
        if refused is not None:
            self._absent["host"] = f"{refused.id}: {refused.reason}"
        try:
            host.follow(self.cgroup_id, full=True)
            self._followed = True
        except Refused as error:
            self._absent["host"] = error.message
        self._look_closer()
        blind_ns = host.attached_ns - self._began_ns
        if blind_ns > 0:
            seen = f"threads were not seen for the first {blind_ns / 1e9:.3f} s"
            self._absent["host before the probes"] = f"{seen}: the agent started later"

    def open(self) -> bool:
        """Begin to fold, or go on where an earlier agent stopped; False if there is nothing."""
        if self._trace is not None or self._given_up:
            return self._trace is not None
        try:
            self._trace = self._open_fold()
        except NotSupported as error:
            self.give_up(error.message)
        if self._trace is None:
            return False
        with contextlib.suppress(BadRequest):  # an earlier agent has set it
            self._trace.set_window(self._began_ns)
        self.window.attach(self._trace)
        for spans in self._held:
            self._trace.add_spans(spans)
        self._held.clear()
        return True

    def _open_fold(self) -> JobTrace | None:
        begun = self.begun
        folded = (self._store / FOLD_FILE).exists()
        if folded and not (self._store / SUMMARY_FILE).exists():
            # An agent died between folding the last segment and writing the summary.
            self._segments.mkdir(mode=0o700, exist_ok=True)
        if self._segments.exists():
            self._store.mkdir(mode=0o700, exist_ok=True)
        try:
            return JobTrace.open(
                self._segments,
                self._store,
                begun.trace,
                owner_uid=begun.uid,
                devices=begun.devices,
            )
        except NotFound:
            return None

    def add_spans(self, spans: bytes) -> None:
        """Thread spans of this job; held back until there is a fold for them."""
        if self._trace is not None:
            self._trace.add_spans(spans)
        elif sum(map(len, self._held)) + len(spans) <= SPANS_HELD_MAX * SPAN_BYTES:
            self._held.append(spans)
        else:
            self._held_lost += len(spans) // SPAN_BYTES

    def drain(self, read: bool, fed_ns: int | None = None) -> float:
        """Fold what there is; the fill of the fullest ring. `read`: thread times as well."""
        if self._trace is None:
            return 0.0
        self.window.tell()
        self._look_closer()
        stats = self._trace.drain(fed_ns)
        self._tell_found()
        if read and stats.threads:
            self._read_host()
        self.window.drained(time.monotonic_ns(), self._write_part)
        return stats.fill

    def hold(self, share: int) -> None:
        """From the next drain on, launches begin in this share of the time, of HOLD_WHOLE."""
        if self._trace is not None and share != self._share:
            self._trace.hold(share)
            self._share = share

    def answers(self) -> tuple[TracerAnswer, ...]:
        """What the tracers of its living processes said at the latest drain."""
        return () if self._trace is None else self._trace.answer()

    @property
    def unheld(self) -> str:
        """Why its tracers are told nothing any more; empty: they are."""
        return "its trace was given up" if self._given_up else ""

    def add_samples(self, samples: Sequence[DeviceSample], t_ns: int) -> None:
        """Power, temperature and load of the job's devices, for its timeline."""
        if self._trace is None:
            return
        for sample in samples:
            if sample.id in self.begun.devices:
                for name, value, unit in (
                    ("power", sample.power_w, "W"),
                    ("temperature", sample.temperature_c, "Cel"),
                    ("busy", sample.busy_ratio, "1"),
                ):
                    if value is not None:
                        self._trace.add_counter(sample.id, name, t_ns, float(value), unit)

    def tracing(self, query: TracingQuery) -> TracingView:
        """Trace as a user asks from now on, and say how it is."""
        view = self.window.take(query, time.monotonic_ns())
        self.follow()
        self._look_closer()
        return view

    def _write_part(self, path: Path, part: TimeWindow, events: BinaryIO) -> TimelineCounts:
        assert self._trace is not None
        title = f"window of job {self.begun.job} {self.begun.name}".strip()
        return self._trace.write_timeline(path, title=title, part=part, events=events)

    def summary(self) -> TraceSummary | None:
        """What is known now; None while nothing is folded."""
        return None if self._trace is None else self._complete(self._trace.summary())

    def govern(self, summary: TraceSummary, host: HostCost) -> bool:
        """Once a second: keep what tracing costs this job under its budget. Whether what was
        measured of the host's programs holds no more."""
        if self._governing is None:
            self._governing = JobGovernor(self.window.steering)
        calls = self._calls
        sites = calls.readings(self.cgroup_id) if calls is not None else ()
        followed_otherwise = False
        for action in self._governing.step(summary.cost, host, time.monotonic_ns(), sites):
            if calls is not None and action.target != "host.spans":
                calls.obey(self.cgroup_id, action)
            elif action.target == "host.spans" and self._host is not None and self._followed:
                with contextlib.suppress(Refused):  # room for one timeline less; asked again later
                    self._host.follow(self.cgroup_id, full=action.kind == "restore")
                self.window.steering.reason = action.reason
                followed_otherwise = True
        return followed_otherwise

    def govern_alone(self) -> None:
        """The same while no tracer runs in the job: its probe sites cost all the same."""
        if self._calls is not None:
            self._calls.govern_alone(self.cgroup_id, time.monotonic_ns())

    def reading(self, offset_ns: int) -> JobReading | None:
        """What is known now, of an ended job for good, as metrics need it; None where there is
        nothing. `offset_ns`: CLOCK_REALTIME minus CLOCK_MONOTONIC."""
        summary = self.last or self.summary()
        if summary is None:
            return None
        histograms: dict[str, Buckets] = {}
        for row in top(summary.kernels):
            found = self._trace.histogram(row.name) if self._trace is not None else None
            if found is not None:
                histograms[row.name] = found.totals(), found.buckets()
        steering = self.window.steering
        return JobReading(
            *self.begun.key,
            self.begun.name,
            summary.window.from_ns + offset_ns,
            steering.wanted,
            steering.budget_ppm,
            summary,
            histograms,
            self._governing.record if self._governing is not None else None,
            self.begun.user,
        )

    def finish(self, ended_ns: int, cpu_ns: int | None = None) -> TraceSummary:
        """The last of it, written to the job's folder. `cpu_ns`: CPU time that the job took."""
        try:
            if self._unfolded() and self.open():
                assert self._trace is not None
                self.drain(read=False)
                self._read_host()
                folded = self._trace.finish(ended_ns)
                self._tell_found()
                summary = self._complete(folded, ended_ns)
                summary = msgspec.structs.replace(
                    summary, pressure=self._pressure(), waits=self._waits()
                )
                self.window.finish(ended_ns, time.monotonic_ns(), self._write_part)
                self._store_summary(summary)
                if summary.kernels or summary.copies:
                    self.write_timeline(self._store / TIMELINE_FILE)
            else:
                summary = self._empty(ended_ns, cpu_ns)
                self._store_summary(summary)
        finally:
            self._remove_segments()
        return summary

    def _pressure(self) -> JobPressure | None:
        """What the kernel saw press on its threads; None where none of them was followed."""
        if self._host is None or not self._followed:
            return None
        return self._host.pressure(self.cgroup_id)

    def _look_closer(self) -> None:
        """Stacks for a job submitted for them; what page faults take while everything is timed."""
        if self._followed:
            full = self.begun.trace == "full"
            self._look.want(stacks=full, faults=self.window.steering.wanted == "full")

    def _waits(self) -> tuple[StackWait, ...]:
        """Where its threads waited longest, if that was asked for."""
        if self._host is None or not self._followed or self.begun.trace != "full":
            return ()
        return tuple(self._host.stack_waits(self.cgroup_id))

    def _unfolded(self) -> bool:
        """Whether there is anything of this job to fold, or folded and without a summary yet."""
        if self._trace is not None or (self._store / FOLD_FILE).exists():
            return True
        try:
            return next(self._segments.iterdir(), None) is not None
        except OSError:
            return False

    def _empty(self, ended_ns: int, cpu_ns: int | None) -> TraceSummary:
        """Of a job that held devices and had no tracer in any process, or whose trace was given up.

        That it called no device is claimed only where that was looked for and nothing speaks
        against it: no process used a driver, and all together hardly used a CPU."""
        window_ns = max(ended_ns - self._began_ns, 0)
        hidden = self._hidden(ended_ns)
        idle = hidden is not None and not hidden.ns and not self._given_up
        idle = idle and cpu_ns is not None and cpu_ns <= window_ns * IDLE_CPU_SHARE
        causes = Causes(held_idle_ns=window_ns) if idle else Causes(not_observed_ns=window_ns)
        absent = {"kernels": NO_SEGMENT, "copies": NO_SEGMENT, **self._absent}
        absent |= self._unseen_calls()
        if hidden is not None and hidden.ns:
            absent["tracer"] = said(hidden)
        elif self.begun.devices and not idle and not self._given_up:
            absent["tracer"] = NO_TRACER
        return TraceSummary(
            self.begun.trace,
            TimeWindow(self._began_ns, self._began_ns + window_ns),
            devices=tuple(DeviceRow(id, window_ns, causes) for id in self.begun.devices),
            loss=self._lost_by_probes(),
            calls=self._call_rows(),
            pressure=self._pressure(),
            waits=self._waits(),
            absent=absent,
        )

    def _store_summary(self, summary: TraceSummary) -> None:
        self._store.mkdir(mode=0o700, exist_ok=True)
        partial = self._store / f".{SUMMARY_FILE}.new"
        partial.write_bytes(msgspec.json.encode(summary))
        partial.replace(self._store / SUMMARY_FILE)
        self.last = summary

    def write_timeline(self, path: Path) -> None:
        """The Perfetto file of what is folded so far; NotFound while nothing is."""
        if self._trace is None:
            raise NotFound(f"job {self.begun.job} has no timeline: {NO_SEGMENT}")
        title = f"job {self.begun.job} {self.begun.name}".strip()
        self._trace.write_timeline(path, title=title)

    def give_up(self, why: str) -> None:
        """This trace is beyond reading: no more is folded, and its summary says so."""
        self._absent["trace"] = f"given up: {why}"
        self._given_up = True
        self.window.fail(why)
        if self._trace is not None:
            self._trace.close()
            self._trace = None

    def close(self) -> None:
        """Let go of it; the fold stays on disk for the next agent."""
        if self._followed and self._host is not None:
            self._host.unfollow(self.cgroup_id)
            self._followed = False
        if self._calls is not None:
            self._calls.end(self.cgroup_id)
        if self._trace is not None:
            self._trace.close()
            self._trace = None

    def _read_host(self) -> None:
        """Times by thread, and the states that still go on: the kernel tells spans at their end."""
        if self._host is None or self._trace is None or not self._followed:
            return
        times = self._host.read(self.cgroup_id)
        self._look.read(times.totals)
        self._feed()  # what ended before the reading comes before what went on in it
        self._trace.add_open_states(times.threads, times.asked_ns)
        self._waits()  # frames have names only as long as the process lives
        self._trace.set_host_times({thread.tid: thread.times for thread in times.threads})

    def _tell_found(self) -> None:
        """A look for processes without a tracer may have come too soon: segments set it right."""
        found = () if self._trace is None else self._trace.found()
        if found and self._calls is not None:
            self._calls.found(self.cgroup_id, found, time.monotonic_ns())

    def _hidden(self, now_ns: int) -> UntracedProcesses | None:
        """What its processes did without a tracer; None: nobody could look."""
        return self._calls.hidden(self.cgroup_id, now_ns) if self._calls is not None else None

    def _complete(self, summary: TraceSummary, now_ns: int | None = None) -> TraceSummary:
        """The fold's summary with what only the agent knows: losses of the probes, absences, and
        what was done without a tracer until `now_ns`."""
        loss = {**summary.loss, "spans_before_segment": self._held_lost, **self._lost_by_probes()}
        window_ns = summary.window.to_ns - summary.window.from_ns
        missing = {**self._unseen_calls(), **self._look.absent(window_ns), **self._silent(summary)}
        absent = {**self._absent, **missing, **summary.absent}
        rows = self._call_rows()
        clocks = (*clock_table(), *summary.clocks)
        whole = msgspec.structs.replace(
            summary, loss=loss, absent=absent, calls=rows, clocks=clocks
        )
        return without(whole, self._hidden(now_ns or summary.window.to_ns) or UntracedProcesses())

    def _silent(self, summary: TraceSummary) -> dict[str, str]:
        """Counts are not whole where tracers were dormant; why, where it was not asked for."""
        cover = summary.coverage
        if cover is None or not cover.dormant_ns:
            return {}
        life_ns = cover.observed_ns + cover.counted_ns + cover.blind_ns + cover.dormant_ns
        told = f"no launch was counted for {_span(cover.dormant_ns)} of {_span(life_ns)}"
        return {"launches": f"{told}, in which tracers were dormant{self._why_silent(summary)}"}

    def _why_silent(self, summary: TraceSummary) -> str:
        """What made them so, as far as it is known."""
        causes = []
        if self.window.steering.reason:
            causes.append(self.window.steering.reason)
        if lapsed := summary.loss.get("leases_lapsed"):
            causes.append(f"the agent came too late {lapsed} times")
        if changed := summary.loss.get("control_changed"):
            causes.append(f"the job changed what its tracers are told {changed} times")
        return f": {'; '.join(causes)}" if causes else ""

    def _lost_by_probes(self) -> dict[str, int]:
        """What the kernel's tables and rings had no room for since this job began."""
        lost: dict[str, int] = {}
        if self._host is not None and self._followed:
            before = self._dropped
            lost = {name: n - before.get(name, 0) for name, n in self._host.dropped().items()}
        return lost | (self._calls.lost(self.cgroup_id) if self._calls is not None else {})

    def _unseen_calls(self) -> dict[str, str]:
        return self._calls.unseen(self.cgroup_id) if self._calls is not None else {}

    def _call_rows(self) -> tuple[CallRow, ...]:
        return self._calls.rows(self.cgroup_id) if self._calls is not None else ()

    def _remove_segments(self) -> None:
        """No process of the job lives any more, so nobody can put a link in the way."""
        self._clearing.remove(self._segments)


def _span(ns: int) -> str:
    """A length of time for a person: `64.1 s`, `12.3 ms`."""
    return (
        f"{ns / 1e9:.3g} s"
        if 1e9 <= ns < 1e12
        else f"{ns / 1e6:.3g} ms"
        if ns < 1e9
        else (f"{ns / 60e9:.0f} min")
    )
