# SPDX-License-Identifier: Apache-2.0
"""The measured speeds of device models for people: for which jobs, from how many, against which.

Pure. Owns the claim that a speed makes: a time that jobs of one series took, never more than that.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.mesh.wire.schema import ReasonView
from stoker.scheduler import figures
from stoker.scheduler.book import Book, Job
from stoker.scheduler.core import Core
from stoker.scheduler.effects import Explained, Speed
from stoker.scheduler.hints import EvidenceSide, SpeedRead
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import JobSpec
from stoker.scheduler.policies import Placement, word_of
from stoker.scheduler.wire_names import SPEED_SAMPLES_MAX, Measure

NEITHER = "no speed of either model is measured, so the policy best decided"


def series_words(spec: JobSpec) -> str:
    """Return the jobs whose speeds are compared with that of a job of this spec."""
    if spec.name:
        return f"jobs named {spec.name}"
    return f"jobs that run {spec.argv[0]} with the same arguments" if spec.argv else "such jobs"


def compared(side: EvidenceSide, model: str, other: EvidenceSide | None, than: str, of: str) -> str:
    """Return the speed of a model for some jobs and how it compares to the model `than`: "4 us a
    launch, 1.8x of A100, for jobs named train, from 12 jobs (the newest 8: 3.9 us to 4.2 us)"."""
    if side.device is None:
        return "it asks for no device"
    speed = side.speed
    if speed is None:
        return f"no speed of {model} is measured for {of}"
    beside = other.speed if other is not None and than != model else None
    ratio = f", {_times(beside, speed)} of {than}" if beside is not None else ""
    return f"{_each(speed)}{ratio}, for {of}, from {_jobs(speed)}"


def speed_lines(core: Core, book: Book, job: Job, lines: list[Explained]) -> Iterator[ReasonView]:
    """Yield a line for each measure of a job that is placed by speed: what is measured by now of
    every model, the fastest first."""
    spec, info = job.decoded_spec(), core.job(job.job)
    by_speed = any(line.detail == Placement.FASTEST for line in lines if 200 <= line.reason < 300)
    if info is None or not (by_speed or spec.placement == word_of(Placement.FASTEST)):
        return
    models = {name_id(d.model): d.model for report in book.nodes.values() for d in report.devices}
    found = core.speeds(info.request.series) if info.request.series else []
    for measure in Measure:
        rows = sorted((s for s in found if s.measure == measure), key=lambda s: s.median_ns)
        if rows:
            text = f"speeds by now for {series_words(spec)}: {_rows(rows, models)}"
            yield ReasonView(code="speeds", text=text, node="", remedies=(), data={})


def _rows(rows: list[Speed], models: dict[int, str]) -> str:
    def row(speed: Speed) -> str:
        read = SpeedRead(
            Measure(speed.measure), speed.median_ns, speed.least_ns, speed.most_ns, speed.jobs
        )
        name = models.get(speed.model, "a model that is gone")
        behind = (
            f", {speed.median_ns / rows[0].median_ns:.2g}x the time" if speed != rows[0] else ""
        )
        return f"{name} {_each(read)}{behind}, from {_jobs(read)}"

    return "; ".join(map(row, rows))


def flip(name: str, model: str, chosen: EvidenceSide, other: EvidenceSide) -> str:
    """Return what would have had the other device chosen."""
    if chosen.device is None or (chosen.speed is None and other.speed is None):
        return NEITHER
    if other.speed is None:
        return f"{name} could have been chosen, had a speed of {model} been measured"
    if chosen.figure == other.figure:
        return f"{name} was as good by this signal, within 5 %: the policy best decided"
    return f"{name} would have been chosen, had {model} taken 5 % less time than the chosen model"


def values(speed: SpeedRead | None) -> dict[str, float]:
    """Return the figures of a speed by their public names."""
    if speed is None:
        return {}
    return {
        "speed_ns": float(speed.median_ns),
        "speed_least_ns": float(speed.least_ns),
        "speed_most_ns": float(speed.most_ns),
        "speed_jobs": float(speed.jobs),
    }


def _times(than: SpeedRead, own: SpeedRead) -> str:
    return f"{than.median_ns / own.median_ns:.2g}x"


def _each(speed: SpeedRead) -> str:
    what = "a launch" if speed.measure == Measure.LAUNCH else "a job"
    return f"{figures.span(speed.median_ns)} {what}"


def _jobs(speed: SpeedRead) -> str:
    if speed.jobs == 1:
        return "1 job"
    newest = f"the newest {SPEED_SAMPLES_MAX}: " if speed.jobs > SPEED_SAMPLES_MAX else ""
    least, most = figures.span(speed.least_ns), figures.span(speed.most_ns)
    return f"{speed.jobs} jobs ({newest}{least} to {most})"
