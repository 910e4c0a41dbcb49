# SPDX-License-Identifier: Apache-2.0
"""The words for measured speeds: which jobs, how many, which models, and what was missing."""

from __future__ import annotations

from stoker.mesh.server import speed_words
from stoker.scheduler.hints import EvidenceSide, Sample, SpeedRead
from stoker.scheduler.nouns import JobSpec
from stoker.scheduler.wire_names import Measure

UNKNOWN = 1 << 30


def speed(median_ns: int, jobs: int, measure: Measure = Measure.LAUNCH) -> SpeedRead:
    return SpeedRead(measure, median_ns, median_ns - 100, median_ns + 200, jobs)


def side(read: SpeedRead | None, figure: int, device: int | None = 0) -> EvidenceSide:
    return EvidenceSide(1, 0, device, 0, figure, Sample(0), 0, read)


FAST, SLOW, NONE = side(speed(4000, 12), 20), side(speed(7200, 3), 36), side(None, UNKNOWN)


def said(of: EvidenceSide, than: EvidenceSide | None) -> str:
    return speed_words.compared(of, "H100", than, "A100", "jobs named train")


def test_a_speed_names_its_jobs_their_number_and_the_other_model() -> None:
    assert said(FAST, SLOW) == (
        "4 us a launch, 1.8x of A100, for jobs named train,"
        " from 12 jobs (the newest 8: 3.9 us to 4.2 us)"
    )
    assert said(SLOW, FAST) == (
        "7.2 us a launch, 0.56x of A100, for jobs named train, from 3 jobs (7.1 us to 7.4 us)"
    )


def test_one_job_has_no_spread_and_run_times_are_of_a_job() -> None:
    alone = side(speed(9 * 10**9, 1, Measure.RUN), 20)
    assert said(alone, NONE) == "9 s a job, for jobs named train, from 1 job"


def test_what_is_not_measured_is_told() -> None:
    assert said(NONE, FAST) == "no speed of H100 is measured for jobs named train"
    assert said(side(None, UNKNOWN, None), None) == "it asks for no device"


def test_what_would_have_turned_the_choice() -> None:
    assert speed_words.flip("GPU-b", "A100", FAST, SLOW) == (
        "GPU-b would have been chosen, had A100 taken 5 % less time than the chosen model"
    )
    assert speed_words.flip("GPU-b", "A100", FAST, NONE) == (
        "GPU-b could have been chosen, had a speed of A100 been measured"
    )
    assert speed_words.flip("GPU-b", "A100", FAST, FAST).startswith(
        "GPU-b was as good by this signal, within 5 %"
    )
    assert speed_words.flip("GPU-b", "A100", NONE, NONE) == speed_words.NEITHER


def test_the_series_is_named_as_people_know_it() -> None:
    assert speed_words.series_words(JobSpec(("./t",), name="train")) == "jobs named train"
    assert speed_words.series_words(JobSpec(("./t", "-x"))) == (
        "jobs that run ./t with the same arguments"
    )


def test_figures_have_public_names() -> None:
    assert speed_words.values(None) == {}
    assert speed_words.values(FAST.speed) == {
        "speed_ns": 4000.0,
        "speed_least_ns": 3900.0,
        "speed_most_ns": 4200.0,
        "speed_jobs": 12.0,
    }
