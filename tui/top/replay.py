# SPDX-License-Identifier: Apache-2.0
"""A recording as the source of the live view's answers: the same views, at any of its moments.

The screen and `top --replay --once` stand on it. Owns the clock of the replay, and that a moment
gives the same answers however one came to it: they are made of the recording and the time alone.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from stoker.mesh.recording.recording_file import RecordingFile, State, told_until
from stoker.mesh.recording.sampler import OF_ARRAYS
from stoker.mesh.wire import schema
from stoker.mesh.wire.schema_alerts import AlertList, AlertView, alert_order
from stoker.mesh.wire.schema_telemetry import TelemetryList
from stoker.native.errors import Corrupt, NotSupported
from stoker.tui.calls import views
from stoker.tui.top.answers import Answers, ServerState
from stoker.tui.top.browser import Seek
from stoker.tui.top.clock import Replayed
from stoker.tui.top.reader import SINCE_S, Wanted
from stoker.tui.top.views import arrays
from stoker.tui.top.views import device as device_view

SPEEDS: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
SECOND_NS: Final = 1_000_000_000
MINUTE_NS: Final = 60 * SECOND_NS
LATE_NS: Final = 2 * SECOND_NS
"""An observation reaches a recording so late after it was made, if it is the newest."""
NOT_IN_IT: Final = {
    "alerts": "no alerts were recorded by this moment",
    "logs": "a recording holds no output of jobs",
    "explain": "no explanation of this job was recorded by this moment",
    "readings": "no readings of this device were recorded in this minute",
    "topology": "the topology of this node was not recorded by this moment",
    "array": "none recorded by now; of a large array only those that ran or failed",
    "job": "this job was not recorded by this moment",
}
DECODED_MAX: Final = 50_000
"""The most rows that are kept as they were decoded."""
T = TypeVar("T")


class RecordingReplay:
    """The answers of a recording; `changed` is called after each change."""

    def __init__(
        self, file: RecordingFile, t_ns: int | None = None, *, playing: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._file, self._clock = file, clock
        self.changed: Callable[[], None] = lambda: None
        self.service = ServerState()
        self.answers = Answers()
        self._wanted = Wanted(())
        self._from_ns = self._clamped(file.first_ns if t_ns is None else t_ns)
        self._since, self._playing, self._speed = clock(), playing, 1.0
        self._decoded: dict[tuple[bytes, type], Any] = {}
        self._shown: tuple[int, Wanted] | None = None
        self._events = [each.t_ns for each in file.events]

    # --- the clock -------------------------------------------------------------------------------

    def now_ns(self) -> int:
        """Return the moment that is shown; a replay stands at its end."""
        if not self._playing:
            return self._from_ns
        passed = int((self._clock() - self._since) * self._speed * SECOND_NS)
        return self._clamped(self._from_ns + passed)

    @property
    def replayed(self) -> Replayed:
        """The clock, for the first line."""
        t_ns = self.now_ns()
        gap = self._file.gap_at(t_ns)
        playing = self._playing and t_ns < self._file.last_ns
        why, since_ns = (gap.why, t_ns - gap.from_ns) if gap is not None else ("", 0)
        return Replayed(t_ns, playing, self._speed, why, since_ns, self._file.about.redacted)

    def seek(self, seek: Seek) -> str:
        """Go to another moment, or at another speed; return what to say of it."""
        t_ns = self.now_ns()
        if seek.what == "by":
            t_ns, said = t_ns + seek.by * SECOND_NS, ""
        elif seek.what == "event":
            t_ns, said = self._event(t_ns, seek.by)
        elif seek.what == "speed":
            at = SPEEDS.index(self._speed) + seek.by
            self._speed = SPEEDS[min(max(at, 0), len(SPEEDS) - 1)]
            said = f"speed x{self._speed:g}"
        else:
            self._playing, said = not self._playing, ""
            if self._playing and t_ns >= self._file.last_ns:
                t_ns = self._file.first_ns
        self._from_ns, self._since = self._clamped(t_ns), self._clock()
        return said

    def _event(self, t_ns: int, by: int) -> tuple[int, str]:
        """Return the moment of the next event, or of the one before."""
        times = self._events
        at = bisect.bisect_right(times, t_ns) if by > 0 else bisect.bisect_left(times, t_ns) - 1
        if not 0 <= at < len(times) or self._clamped(times[at]) != times[at]:
            return t_ns, f"no event {'after' if by > 0 else 'before'} this moment"
        told = self._file.events[at]
        about = f"job {told.row['job']} " if "job" in told.row else f"{told.row.get('node', '')} "
        return times[at], f"{about}{told.lost or told.row.get('what', '')}".strip()

    def _clamped(self, t_ns: int) -> int:
        return min(max(t_ns, self._file.first_ns), self._file.last_ns)

    # --- the answers -----------------------------------------------------------------------------

    def want(self, wanted: Wanted) -> None:
        """Say what is shown."""
        self._wanted = wanted

    def hurry(self) -> None:
        """Do nothing: a recording has everything at once."""

    def start(self) -> Sequence[Any]:
        """Make the answers of this moment, if it or the view is another one."""
        t_ns = self.now_ns()
        if self._shown != (t_ns, self._wanted):
            self._shown = t_ns, self._wanted
            self.answers = self._answers(t_ns)
            self.changed()
        return ()

    async def once(self) -> None:
        """Make the answers of this moment."""
        self.start()

    async def close(self) -> None:
        """Do nothing."""

    def _answers(self, t_ns: int) -> Answers:
        rows, wanted = self._file.state(t_ns), self._wanted
        nodes = self._all(rows, "nodes", schema.NodeView)
        devices = self._all(rows, "devices", schema.DeviceView)
        jobs = self._all(rows, "jobs", schema.JobView)
        refused = {part: msgspec.json.decode(why) for part, why in rows.get("refused", {}).items()}
        span_ns = int(SINCE_S * SECOND_NS)
        found = Answers(
            at_ns=t_ns,
            nodes=nodes,
            devices=devices,
            jobs=sorted(jobs, key=lambda job: -job.job) if jobs is not None else None,
            queues=self._all(rows, "queues", schema.QueueView),
            cluster=self._one(rows, "cluster", "", schema.ClusterView),
            streams=self._one(rows, "streams", "", TelemetryList),
            events=None if "events" in refused else told_until(self._file.events, t_ns, span_ns),
            summaries=told_until(self._file.summaries, t_ns, span_ns),
            alert_counts=self._alerts(rows),
            subject=wanted.subject,
            heard={each.node: min((each.observed_ns or 0) + LATE_NS, t_ns) for each in nodes or ()},
        )
        about = self._about(found, rows, t_ns)
        absent = {
            need: NOT_IN_IT[need]
            for need in wanted.needs
            if need in NOT_IN_IT and about.get(need) is None
        }
        return msgspec.structs.replace(found, refused={**absent, **refused}, **about)

    def _alerts(self, rows: State) -> AlertList | None:
        """Return the alerts of a moment with their counts, which are those of the rows."""
        found = self._all(rows, "alerts", AlertView)
        if found is None:
            return None
        firing = [each for each in found if each.state == "firing"]
        unseen = sum(each.acknowledged is None for each in firing)
        alerts = tuple(sorted(found, key=alert_order))
        return AlertList(firing=len(firing), unseen=unseen, alerts=alerts)

    def _about(self, found: Answers, rows: State, t_ns: int) -> dict[str, Any]:
        """Return the answers that the view needs beside those of the whole cluster."""
        needs, subject = self._wanted.needs, self._wanted.subject
        about: dict[str, Any] = {}
        if "alerts" in needs:
            about["alerts"] = found.alert_counts
        if "job" in needs:
            about["job"] = self._job(found, rows, subject)
        if "array" in needs:
            about["array"] = arrays.within(self._singly(found, rows), subject) or None
        if "explain" in needs:
            explained = _job_key(self._wanted.explained, rows)
            about["explain"] = self._one(rows, "explain", explained, schema.ExplainView)
        if "topology" in needs:
            about["topology"] = self._one(rows, "topology", subject, schema.TopologyView)
        if "readings" in needs:
            about["readings"] = self._readings(found, subject, t_ns)
        return about

    def _job(self, found: Answers, rows: State, subject: str) -> Mapping[str, Any] | None:
        """Return a job as `stoker job -o json` had it, or as the list had it if that is newer."""
        key = _job_key(subject, rows)
        listed = self._one(rows, OF_ARRAYS, key, schema.JobView)
        listed = listed or self._one(rows, "jobs", key, schema.JobView)
        whole = self._one(rows, "job", key, schema.JobView)
        if whole is None and listed is not None:
            absent = "its trace was not recorded by this moment"
            whole = msgspec.structs.replace(listed, trace_absent=absent)
        if whole is None:
            return None
        return views.job_object(whole, found.devices or (), found.nodes or ())

    def _singly(self, found: Answers, rows: State) -> list[schema.JobView] | None:
        """Return the jobs that have a row of their own; of a large array those are some."""
        if found.jobs is None:
            return None
        alone = [job for job in found.jobs if job.array is None or job.array.states is None]
        return [*alone, *(self._all(rows, OF_ARRAYS, schema.JobView) or ())]

    def _readings(self, found: Answers, subject: str, t_ns: int) -> schema.ReadingsView | None:
        device = device_view.device_of(found, subject)
        if device is None:
            return None
        name = f"{device.node}:{device.id}"
        span = self._file.readings(name, t_ns - MINUTE_NS, t_ns)
        if span is None:
            return None
        view = self._read(span.view, schema.ReadingsView)
        return msgspec.structs.replace(view, history=dict(span.points))

    # --- rows ------------------------------------------------------------------------------------

    def _all(self, rows: State, part: str, kind: type[T]) -> list[T] | None:
        found = rows.get(part)
        return None if found is None else [self._read(row, kind) for row in found.values()]

    def _one(self, rows: State, part: str, key: str, kind: type[T]) -> T | None:
        row = rows.get(part, {}).get(key)
        return None if row is None else self._read(row, kind)

    def _read(self, row: bytes, kind: type[T]) -> T:
        """Return a row as a reply of the schema; the last ones are kept, since most stay."""
        known = self._decoded.get((row, kind))
        if known is None:
            if len(self._decoded) > DECODED_MAX:
                self._decoded.clear()
            known = self._decoded[row, kind] = self._decode(row, kind)
        found: T = known
        return found

    def _decode(self, row: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(row, type=kind)
        except msgspec.ValidationError as error:
            made = self._file.about.version
            raise NotSupported(
                f"{self._file.name} was made by stoker {made} and has a row that this one does not"
                f" know: {error}",
                hint="replay it with that version",
            ) from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Corrupt(f"{self._file.name} holds a row that is no JSON: {error}") from None


def _job_key(subject: str, rows: State) -> str:
    """Return a job's number as recordings have it; `last` is the newest one."""
    if subject == "last":
        return max(rows.get("jobs", {}), key=int, default="")
    return subject.removeprefix("j")
