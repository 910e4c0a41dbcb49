# SPDX-License-Identifier: Apache-2.0
"""The trace of one job, from its start to its summary on disk.

The fold is opened with the first segment, which a process makes when it loads a tracer; until then
a job costs a few microseconds. This module adds to the fold's summary what only the agent knows:
host probes that were missing or late, and their losses.
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
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.tracing.detailed_probes import DetailedProbes
from stoker.agent.tracing.job_calls import JobCalls
from stoker.agent.tracing.job_energy import EnergySource, JobEnergy, nothing_read
from stoker.agent.tracing.job_governor import HostCost, JobGovernor
from stoker.agent.tracing.job_throttles import NO_SOURCES, JobThrottles, Sources
from stoker.agent.tracing.local_records import LocalRecords
from stoker.agent.tracing.trace_window import RecordSink, TraceWindow
from stoker.agent.tracing.untraced_processes import UntracedProcesses, hidden_reason, without
from stoker.mesh.wire.queries import TracingQuery
from stoker.mesh.wire.schema import TracingView
from stoker.native.errors import BadRequest, NotFound, NotSupported, Refused
from stoker.probes.calls.call_records import CallRow
from stoker.probes.catalogue import SPAN_PROBES
from stoker.probes.collectives.collective_rows import Collectives, at_the_end
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
    TimedLaunch,
    TimelineCounts,
    TimeWindow,
    TracerAnswer,
    TraceSummary,
)
from stoker.probes.kernels.trace_summary import PEERS
from stoker.scheduler.names import DEFAULT_QUEUE
from stoker.scheduler.nouns import DeviceSample

SUMMARY_FILE = "trace.json"
TIMELINE_FILE = "trace.perfetto"
FOLD_FILE = STORE_FILES[0]

EARLY_SPANS_MAX = 32_768
"""The largest number of thread spans kept for a job before its first segment; more are counted as
lost."""
LATE_NS = 100_000_000
"""The time after a job's start from which on the summary says that it was followed late."""

IDLE_CPU_SHARE = 0.1
"""The share of one CPU above which a job without a tracer may have used its devices."""
NO_TRACER = (
    "no process of the job had a tracer, so what it did with its devices is not observed and is "
    "charged as held"
)
NO_SEGMENT = "no process of the job has called a GPU runtime that stoker traces"


class TracedJob:
    """One job, for one thread; made by the tracing thread, ended by `finish` or `close`."""

    def __init__(
        self,
        record: StartRecord,
        segments: Path,
        store: Path,
        *,
        began_ns: int,
        cgroup_id: int,
        host: HostProbes | None,
        dropped: Mapping[str, int],
        feed: Callable[[], None],
        sink: RecordSink,
        calls: JobCalls | None = None,
        removal: FolderRemoval | None = None,
        throttling: Sources = NO_SOURCES,
        energy: EnergySource = nothing_read,
        adopted: bool = True,
    ) -> None:
        """`feed` gives the spans that wait in the ring to their jobs. `adopted`: an earlier agent
        may have traced this job."""
        self._removal = removal or FolderRemoval()
        self.record = record
        self.window = TraceWindow(record, store, sink)
        self._local = (
            LocalRecords(sink.node, record, sink.bus, sink.local_allowance)
            if sink.bus is not None
            else None
        )
        self._governor: JobGovernor | None = None
        self._throttles = JobThrottles(record, store, began_ns, throttling)
        self._throttles.start(adopted=adopted)
        self._energy = JobEnergy(record, store, energy, adopted=adopted)
        self.cgroup_id = cgroup_id
        self._segments, self._store = segments, store
        self._began_ns = began_ns
        self._host = host
        self._detailed = DetailedProbes(host, cgroup_id)
        self._calls = calls
        self._trace: JobTrace | None = None
        self._followed = False
        self._dropped = dropped
        self._feed = feed
        self._early: list[bytes] = []
        self._early_lost = 0
        self._absent: dict[str, str] = dict(record.aside)
        self._given_up = False
        self._share = HOLD_WHOLE
        self.last: TraceSummary | None = None
        """The final summary, once it is on disk."""

    def follow(self, *, early: bool = False) -> None:
        """Follow the job's threads; the summary names what the probes cannot record. `early`: they
        were followed before the first one existed."""
        if self._followed or self.window.plan.wanted == "dormant":
            return  # following a dormant job starts with its first window
        host = self._host
        if self._calls is not None and self.cgroup_id:
            segments = self._segments if self.record.devices else None
            self._calls.begin(self.record.key, self.cgroup_id, segments)
        if host is None or not self.cgroup_id:
            self._absent["host"] = (
                "without cgroups (no root) threads of jobs cannot be distinguished"
            )
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
        self._select_probes()
        blind_ns = host.attached_ns - self._began_ns
        if blind_ns > 0:
            seen = f"threads were not seen for the first {blind_ns / 1e9:.3f} s"
            self._absent["host before the probes"] = f"{seen}: the agent started later"
        elif not early and (late_ns := time.monotonic_ns() - self._began_ns) > LATE_NS:
            seen = f"threads were not seen for the first {late_ns / 1e9:.3f} s"
            self._absent["host before it was followed"] = f"{seen}: the agent was busy"

    def follow_ended(self, *, early: bool) -> None:
        """Follow a job that ended before the thread came to it, if its threads were recorded."""
        if early:
            self.follow(early=True)
        elif self._host is not None and self.cgroup_id and self.window.plan.wanted != "dormant":
            self._absent["host"] = "it ended before its threads were followed"

    def open(self) -> bool:
        """Open the fold, or continue that of an earlier agent; False if there is no segment."""
        if self._trace is not None or self._given_up:
            return self._trace is not None
        try:
            self._trace = self._open_fold()
        except NotSupported as error:
            self.give_up(error.message)
        if self._trace is None:
            return False
        with contextlib.suppress(BadRequest):  # an earlier agent has set the window
            self._trace.set_window(self._began_ns)
        self.window.attach(self._trace)
        for spans in self._early:
            self._trace.add_spans(spans)
        self._early.clear()
        return True

    def _open_fold(self) -> JobTrace | None:
        record = self.record
        folded = (self._store / FOLD_FILE).exists()
        if folded and not (self._store / SUMMARY_FILE).exists():
            # An agent died after folding the last segment and before writing the summary.
            self._segments.mkdir(mode=0o700, exist_ok=True)
        if self._segments.exists():
            self._store.mkdir(mode=0o700, exist_ok=True)
        try:
            return JobTrace.open(
                self._segments,
                self._store,
                record.trace,
                owner_uid=record.uid,
                devices=record.devices,
            )
        except NotFound:
            return None

    def add_spans(self, spans: bytes) -> None:
        """Add thread spans of this job; they are kept until there is a fold."""
        if self._trace is not None:
            self._trace.add_spans(spans)
        elif sum(map(len, self._early)) + len(spans) <= EARLY_SPANS_MAX * SPAN_BYTES:
            self._early.append(spans)
        else:
            self._early_lost += len(spans) // SPAN_BYTES

    def drain(self, read: bool, fed_ns: int | None = None) -> float:
        """Fold all new records and return the fill of the fullest ring. `read`: thread times
        too."""
        waits = self._calls.waits(self.cgroup_id) if self._calls is not None else None
        self._throttles.read(quotas_alone=not read)
        self._energy.look()
        if self._trace is None:
            return 0.0
        self.window.apply_mode()
        self._select_probes()
        if waits is not None:
            self._trace.add_waits(*waits)
        stats = self._trace.drain(fed_ns)
        self._report_segments()
        if read and stats.threads:
            self._read_host()
        self.window.drained(time.monotonic_ns(), self._write_part)
        if self._local is not None:
            self._local.drained(self._trace, time.monotonic_ns())
        return stats.fill

    def throttle(self, share: int) -> None:
        """Let launches begin in this share of the time from the next drain on; HOLD_WHOLE is
        all."""
        if self._trace is not None and share != self._share:
            self._trace.hold(share)
            self._share = share

    def answers(self) -> tuple[TracerAnswer, ...]:
        """Return the answers of the tracers of living processes at the latest drain."""
        return () if self._trace is None else self._trace.answer()

    @property
    def unreachable(self) -> str:
        """The reason why nothing reaches the tracers any more; empty while it does."""
        return "its trace was given up" if self._given_up else ""

    def add_samples(self, samples: Sequence[DeviceSample], t_ns: int) -> None:
        """Add power, temperature and load of the job's devices to its timeline."""
        if self._trace is None:
            return
        for sample in samples:
            if sample.id in self.record.devices:
                for name, value, unit in (
                    ("power", sample.power_w, "W"),
                    ("temperature", sample.temperature_c, "Cel"),
                    ("busy", sample.busy_ratio, "1"),
                ):
                    if value is not None:
                        self._trace.add_counter(sample.id, name, t_ns, float(value), unit)

    def tracing(self, query: TracingQuery) -> TracingView:
        """Carry out a user's query about tracing and return the view after it."""
        view = self.window.take(query, time.monotonic_ns())
        self.follow()
        self._select_probes()
        return view

    def _write_part(self, path: Path, part: TimeWindow, events: BinaryIO) -> TimelineCounts:
        assert self._trace is not None
        title = f"window of job {self.record.job} {self.record.name}".strip()
        return self._trace.write_timeline(path, title=title, part=part, events=events)

    def summary(self) -> TraceSummary | None:
        """Return the summary up to now; None while nothing is folded."""
        if self._trace is None:
            return None
        folded = self._trace.summary()
        self._throttles.worked(folded)
        self._throttles.keep()
        return self._complete(folded)

    def so_far(self, now_ns: int) -> TraceSummary:
        """Return the summary up to now; of a job without a fold the time its devices were held."""
        found = self.summary() or self._empty(now_ns, self._cpu_ns(), over=False)
        return self._energy.applied(found)

    @property
    def folded(self) -> bool:
        """True while there is a fold, whose summary tells of the job's devices."""
        return self._trace is not None

    def held(self, now_ns: int, cpu_ns: int | None) -> tuple[DeviceRow, ...]:
        """Return the devices of a job without a fold, which it holds idle or unobserved."""
        window_ns = max(now_ns - self._began_ns, 0)
        idle = self._is_idle(window_ns, cpu_ns, self._hidden(now_ns))
        causes = Causes(held_idle_ns=window_ns) if idle else Causes(not_observed_ns=window_ns)
        return tuple(DeviceRow(id, window_ns, causes) for id in self.record.devices)

    def _cpu_ns(self) -> int | None:
        """Return the CPU time of the job's threads so far; None if they are not followed."""
        if self._host is None or not self._followed:
            return None
        totals = self._host.read(self.cgroup_id).totals
        return None if totals is None else totals.on_cpu_ns

    def govern(self, summary: TraceSummary, host: HostCost) -> bool:
        """Keep the cost of tracing this job under its budget, once a second. True if the host's
        programs changed, so that their measured cost is void."""
        if self._governor is None:
            self._governor = JobGovernor(self.window.plan)
        calls = self._calls
        sites = calls.readings(self.cgroup_id) if calls is not None else ()
        changed_programs = False
        for action in self._governor.step(summary.cost, host, time.monotonic_ns(), sites):
            if calls is not None and action.target != "host.spans":
                calls.obey(self.cgroup_id, action)
            elif action.target == "host.spans" and self._host is not None and self._followed:
                with contextlib.suppress(Refused):  # no room for the timeline; tried again later
                    self._host.follow(self.cgroup_id, full=action.kind == "restore")
                self.window.plan.reason = action.reason
                if action.kind == "fall_back":
                    self._absent["host spans"] = f"{action.reason}, for a part of the time"
                changed_programs = True
        return changed_programs

    def govern_alone(self) -> None:
        """Keep the cost of probe sites under the budget while no tracer runs in the job."""
        if self._calls is not None:
            self._calls.govern_alone(self.cgroup_id, time.monotonic_ns())

    def reading(self, offset_ns: int) -> JobReading | None:
        """Return the values for metrics, the final ones of an ended job; None if there are none.
        `offset_ns`: CLOCK_REALTIME minus CLOCK_MONOTONIC."""
        summary = self.last or self.summary()
        if summary is None:
            return None
        histograms: dict[str, Buckets] = {}
        slowest: dict[str, TimedLaunch] = {}
        for row in top(summary.kernels):
            if self._trace is None:
                break
            found, slow = self._trace.histogram(row.name), self._trace.slowest(row.name)
            if found is not None:
                histograms[row.name] = found.totals(), found.buckets()
            if slow is not None:
                slowest[row.name] = TimedLaunch(slow.ns, slow.end_ns + offset_ns)
        plan = self.window.plan
        return JobReading(
            self.record.key,
            self.record.name,
            summary.window.from_ns + offset_ns,
            plan.wanted,
            plan.budget_ppm,
            summary,
            histograms,
            slowest,
            self._governor.record if self._governor is not None else None,
            self.record.user,
            self.record.uid,
            self.record.queue or DEFAULT_QUEUE,
        )

    def finish(self, ended_ns: int, cpu_ns: int | None = None) -> TraceSummary:
        """Fold the rest and write the summary to the job's folder. `cpu_ns`: CPU time of the
        job."""
        try:
            if self._unfolded() and self.open():
                assert self._trace is not None
                self.drain(read=False)
                self._read_host()
                folded = self._trace.finish(ended_ns)
                self._throttles.end(folded)
                self._report_segments()
                summary = self._complete(folded, ended_ns)
                summary = msgspec.structs.replace(
                    summary, pressure=self._pressure(), waits=self._waits()
                )
                self.window.finish(ended_ns, time.monotonic_ns(), self._write_part)
                if self._local is not None:
                    self._local.end(time.monotonic_ns())
                summary = self._store_summary(summary)
                if summary.kernels or summary.copies:
                    self.write_timeline(self._store / TIMELINE_FILE)
            else:
                summary = self._store_summary(self._empty(ended_ns, cpu_ns, over=True))
        finally:
            self._removal.remove(self._segments)  # no process of the job lives
        return summary

    def _pressure(self) -> JobPressure | None:
        """Return the kernel's pressure on the job's threads; None if they were not followed."""
        if self._host is None or not self._followed:
            return None
        return self._host.pressure(self.cgroup_id)

    def _select_probes(self) -> None:
        """Select the opt-in probes: stacks for a job submitted as full, page faults in full
        mode."""
        if self._followed:
            full = self.record.trace == "full"
            self._detailed.want(stacks=full, faults=self.window.plan.wanted == "full")

    def _waits(self) -> tuple[StackWait, ...]:
        """Return where the job's threads waited longest, for a job submitted as full."""
        if self._host is None or not self._followed or self.record.trace != "full":
            return ()
        return tuple(self._host.stack_waits(self.cgroup_id))

    def _unfolded(self) -> bool:
        """True if there are segments to fold, or a fold without a summary."""
        if self._trace is not None or (self._store / FOLD_FILE).exists():
            return True
        try:
            return next(self._segments.iterdir(), None) is not None
        except OSError:
            return False

    def _empty(self, ended_ns: int, cpu_ns: int | None, *, over: bool) -> TraceSummary:
        """Return the summary of a job without a fold: it had no tracer, or its trace was given up.

        Its devices count as held idle only if that was observed: no process used a driver, and all
        together hardly used a CPU. Otherwise their time is not observed."""
        window_ns = max(ended_ns - self._began_ns, 0)
        hidden = self._hidden(ended_ns)
        idle = self._is_idle(window_ns, cpu_ns, hidden)
        causes = Causes(held_idle_ns=window_ns) if idle else Causes(not_observed_ns=window_ns)
        absent = {"kernels": NO_SEGMENT, "copies": NO_SEGMENT, **self._absent}
        absent |= self._uncounted_calls()
        if hidden is not None and hidden.ns:
            absent["tracer"] = hidden_reason(hidden)
        elif self.record.devices and not idle and not self._given_up:
            absent["tracer"] = NO_TRACER
        return TraceSummary(
            self.record.trace,
            TimeWindow(self._began_ns, self._began_ns + window_ns),
            devices=tuple(DeviceRow(id, window_ns, causes) for id in self.record.devices),
            loss=self._lost_by_probes(),
            calls=self._call_rows(),
            pressure=self._pressure(),
            waits=self._waits(),
            absent=absent,
            collectives=self._ranks(over=over),
        )

    def _is_idle(
        self, window_ns: int, cpu_ns: int | None, hidden: UntracedProcesses | None
    ) -> bool:
        """True if it was observed that a job without a fold does not use its devices."""
        seen = hidden is not None and not hidden.ns and not self._given_up
        return seen and cpu_ns is not None and cpu_ns <= window_ns * IDLE_CPU_SHARE

    def _store_summary(self, found: TraceSummary) -> TraceSummary:
        """Write and return the final summary, with the energy that nobody can add later."""
        summary = self._energy.applied(found)
        self._store.mkdir(mode=0o700, exist_ok=True)
        partial = self._store / f".{SUMMARY_FILE}.new"
        partial.write_bytes(msgspec.json.encode(summary))
        partial.replace(self._store / SUMMARY_FILE)
        self._energy.end()
        self.last = summary
        return summary

    def write_timeline(self, path: Path) -> None:
        """Write the Perfetto file of what is folded so far; NotFound while there is no fold."""
        if self._trace is None:
            raise NotFound(f"job {self.record.job} has no timeline: {NO_SEGMENT}")
        title = f"job {self.record.job} {self.record.name}".strip()
        self._trace.write_timeline(path, title=title)

    def give_up(self, why: str) -> None:
        """Stop folding a trace that cannot be read; the summary gives the reason."""
        self._absent["trace"] = f"given up: {why}"
        self._given_up = True
        self.window.fail(why)
        if self._trace is not None:
            self._trace.close()
            self._trace = None

    def close(self) -> None:
        """Close the trace; the fold stays on disk for the next agent."""
        if self._followed and self._host is not None:
            self._host.unfollow(self.cgroup_id)
            self._followed = False
        if self._local is not None:
            self._local.close()
            self._local = None
        if self._calls is not None:
            self._calls.end(self.cgroup_id)
        if self._trace is not None:
            self._trace.close()
            self._trace = None

    def _read_host(self) -> None:
        """Read times by thread, and open states: the kernel reports a span only at its end."""
        if self._host is None or self._trace is None or not self._followed:
            return
        times = self._host.read(self.cgroup_id)
        self._detailed.read(times.totals)
        self._feed()  # spans that ended before the reading precede the open ones
        self._trace.add_open_states(times.threads, times.asked_ns)
        self._waits()  # frames have names only while the process lives
        self._trace.set_host_times({thread.tid: thread.times for thread in times.threads})

    def collectives(self) -> Collectives | None:
        """Return which of the job's ranks waited for which; None if it has none."""
        if self._calls is None:
            return None
        return self._calls.collectives(self.cgroup_id, time.monotonic_ns())

    def _report_segments(self) -> None:
        """Report new segments, which correct a search for processes without a tracer that came too
        soon."""
        found = () if self._trace is None else self._trace.found()
        if found and self._calls is not None:
            self._calls.found(self.cgroup_id, found, time.monotonic_ns())

    def _hidden(self, now_ns: int) -> UntracedProcesses | None:
        """Return what processes did without a tracer; None if nobody could look."""
        return self._calls.hidden(self.cgroup_id, now_ns) if self._calls is not None else None

    def _complete(self, summary: TraceSummary, now_ns: int | None = None) -> TraceSummary:
        """Return the fold's summary with the agent's knowledge: losses of the probes, absences, and
        the time without a tracer until `now_ns`."""
        loss = {**summary.loss, "spans_before_segment": self._early_lost, **self._lost_by_probes()}
        window_ns = summary.window.to_ns - summary.window.from_ns
        missing = {**self._uncounted_calls(), **self._detailed.absent(window_ns)}
        missing |= self._silent(summary)
        absent = {**self._absent, **missing, **summary.absent}
        if self._calls is not None and self._followed:
            why = self._calls.untold(self.cgroup_id) or self._waits_on_device(summary)
            absent = {k: v for k, v in absent.items() if k != PEERS} | ({PEERS: why} if why else {})
        whole = msgspec.structs.replace(
            summary,
            loss=loss,
            absent=absent,
            calls=self._call_rows(),
            clocks=(*clock_table(), *summary.clocks),
            collectives=self._ranks(over=now_ns is not None),
        )
        hidden = self._hidden(now_ns or summary.window.to_ns) or UntracedProcesses()
        return self._throttles.applied(without(whole, hidden))

    def _waits_on_device(self, summary: TraceSummary) -> str:
        """Return why waiting is unknown if NCCL's kernels ran: ranks wait there."""
        name = next((row.name for row in summary.kernels if row.name.startswith("nccl")), "")
        return f"{name}: ranks wait in NCCL's kernels, whose time counts as busy" if name else ""

    def _ranks(self, *, over: bool) -> Collectives | None:
        """Return the ranks of the job; of one that is over without its present troubles."""
        found = self.collectives()
        return at_the_end(found) if found is not None and over else found

    def _silent(self, summary: TraceSummary) -> dict[str, str]:
        """Return why counts are incomplete if tracers were dormant for a part of the time."""
        cover = summary.coverage
        if cover is None or not cover.dormant_ns:
            return {}
        life_ns = cover.observed_ns + cover.counted_ns + cover.blind_ns + cover.dormant_ns
        count = f"no launch was counted for {_span(cover.dormant_ns)} of {_span(life_ns)}"
        return {"launches": f"{count}, in which tracers were dormant{self._why_silent(summary)}"}

    def _why_silent(self, summary: TraceSummary) -> str:
        """Return the known causes of dormant tracers, as the end of a sentence."""
        causes = []
        if self.window.plan.reason:
            causes.append(self.window.plan.reason)
        if lapsed := summary.loss.get("leases_lapsed"):
            causes.append(f"the agent renewed the mode too late {lapsed} times")
        if changed := summary.loss.get("control_changed"):
            causes.append(f"the job overwrote its tracers' mode {changed} times")
        return f": {'; '.join(causes)}" if causes else ""

    def _lost_by_probes(self) -> dict[str, int]:
        """Return the losses of the kernel's tables and rings since this job began."""
        lost: dict[str, int] = {}
        if self._host is not None and self._followed:
            before = self._dropped
            lost = {name: n - before.get(name, 0) for name, n in self._host.dropped().items()}
        return lost | (self._calls.lost(self.cgroup_id) if self._calls is not None else {})

    def _uncounted_calls(self) -> dict[str, str]:
        return self._calls.unseen(self.cgroup_id) if self._calls is not None else {}

    def _call_rows(self) -> tuple[CallRow, ...]:
        return self._calls.rows(self.cgroup_id) if self._calls is not None else ()


def _span(ns: int) -> str:
    """Return a length of time for people: `64.1 s`, `12.3 ms`."""
    return (
        f"{ns / 1e9:.3g} s"
        if 1e9 <= ns < 1e12
        else f"{ns / 1e6:.3g} ms"
        if ns < 1e9
        else (f"{ns / 60e9:.0f} min")
    )
