# SPDX-License-Identifier: Apache-2.0
"""The measured speeds of device models for people: for which jobs, from how many, against which.

Pure. Owns the claim that a speed makes: a time that jobs of one series took, never more than that.
"""

from __future__ import annotations

from stoker.scheduler import figures
from stoker.scheduler.hints import EvidenceSide, SpeedRead
from stoker.scheduler.nouns import JobSpec
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
    ratio = f", {_times(other.speed, speed)} of {than}" if other and other.speed else ""
    return f"{_each(speed)}{ratio}, for {of}, from {_jobs(speed)}"


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
