# SPDX-License-Identifier: Apache-2.0
"""The ranges from which simulated cards, their sensors, jobs and faults are drawn.

Every range has its source, or the reason for an assumption. Invariant: a controller never reads
this file; it is tuned on some seeds and judged on others.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Range(NamedTuple):
    """A uniform range from `low` to `high`; `source` begins with "assumed:" if none was found."""

    low: float
    high: float
    unit: str
    source: str


CARDS: Final = 8
"""Cards in one node, as on an HGX board."""
TDP_W: Final = 700.0
"""H200 SXM (NVIDIA H200 datasheet: configurable up to 700 W); default and highest limit."""
LIMIT_MIN_W: Final = 200.0
"""Caps from 200 to 700 W were set on H100 and H200 SXM in arXiv 2604.11391."""
CLOCK_MHZ: Final = (345, 1980, 15)
"""Lowest, highest and step of an H100/H200's SM clock, as nvidia-smi lists supported clocks."""
TEMPERATURE_C: Final = (85, 92, 97)
"""Target, slowdown, shutdown; assumed, near what boards of this class report as thresholds."""

_HBM = "3.9 pJ/bit of HBM2 (O'Connor et al., MICRO 2017) x 4.8 TB/s is 150 W; -/+ a third"
_SENSOR = "arXiv 2312.02741 (SC24): "

PHYSICS: Final[dict[str, Range]] = {
    "idle_w": Range(
        55,
        95,
        "W",
        "assumed: a tenth of TDP, as idle boards of this class report, -/+ 30 %",
    ),
    "full_share": Range(
        0.85,
        1.20,
        "of TDP",
        "assumed: draw of full load at the highest clock at 60 C. Dense matrix products draw"
        " more than the limit (clocks fall under it: arXiv 2604.11391), other kernels less",
    ),
    "exponent": Range(2.0, 3.0, "", "P ~ f V^2: V nearly flat gives towards 1-2, V ~ f gives 3"),
    "leakage_w": Range(15, 45, "W", "assumed: 2 to 6 % of TDP at 25 C die"),
    "leakage_per_c": Range(
        0.008, 0.012, "1/C", "assumed: leakage doubles within about 60 to 90 C; 0.01 -/+ 20 %"
    ),
    "thermal_c_per_w": Range(
        0.042,
        0.078,
        "C/W",
        "0.060 -/+ 30 %; assumed: with 0.060, 700 W take a die from 25 C air to 67 C",
    ),
    "capacity_j_per_c": Range(
        840,
        1560,
        "J/C",
        "1200 -/+ 30 %, assumed: a time constant of 72 s with 0.060 C/W, of the order that"
        " scheduler/sim/thermal_model.py assumes (120 s)",
    ),
    "ambient_c": Range(18, 32, "C", "ASHRAE TC 9.9: recommended from 18, class A1 up to 32 C"),
    "fan_min": Range(0.35, 0.6, "of full cooling", "assumed: chassis fans never stop"),
    "limiter_s": Range(
        0.02, 0.2, "s", "assumed: the board's own limiter acts in tens to some hundreds of ms"
    ),
    "memory_w": Range(100, 200, "W", _HBM),
}

SENSOR: Final[dict[str, Range]] = {
    "period_ms": Range(
        20, 100, "ms", _SENSOR + "update periods of 20 (V100) to 100 ms (A100, H100)"
    ),
    "window_ms": Range(
        100, 1000, "ms", "nvml.h: nvmlDeviceGetPowerUsage is a 1 s average from Ampere on; else 100"
    ),
    "sampled_share": Range(0.25, 0.25, "", _SENSOR + "25 ms of each 100 ms are looked at (H100)"),
    "delay_ms": Range(0, 100, "ms", "assumed: a value is up to one more period old when read"),
    "gain": Range(0.95, 1.05, "", _SENSOR + "a proportional error of up to 5 % between boards"),
    "offset_w": Range(-2, 2, "W", "assumed: small beside the proportional error found there"),
    "energy_period_ms": Range(20, 100, "ms", "ml.energy: the energy counter moves every ~100 ms"),
    "temperature_period_ms": Range(
        100, 1000, "ms", "assumed: whole degrees, at most once a second"
    ),
}


class JobKind(NamedTuple):
    """A kind of job: its load phases on a card, with ranges as in `struct sk_sim_load`."""

    weight: float
    """The share of jobs of this kind; assumed: a third each, so that none dominates."""
    length_s: Range
    """The length of the job."""
    phases: tuple[LoadPhase, ...]
    """The phases of the job, which repeat until its end."""


class LoadPhase(NamedTuple):
    """A time of constant load."""

    length_s: Range
    compute: Range
    memory: Range
    bound: Range


_DECODE = (
    "decode of language models is bound by memory: an H200 draws 137 to 300 W at full speed and"
    " lower clocks cost next to nothing (arXiv 2605.11999)"
)
_TRAIN = (
    "training and prefill are bound by compute and draw up to TDP, with regular pauses (Patel"
    " et al., 'Characterizing Power Management Opportunities for LLMs in the Cloud', ASPLOS 2024)"
)
_BURST = "assumed: load of a served model follows its users, in bursts of seconds (ibid.)"
_PAUSE = "assumed: checkpoint, evaluation or input stall between stretches of steps"

TRAINING: Final = JobKind(
    0.34,
    Range(40, 240, "s", "assumed: longer than the run in part, so that some cards never change"),
    (
        LoadPhase(
            Range(20, 90, "s", "assumed: between two pauses"),
            Range(0.90, 1.0, "", _TRAIN),
            Range(
                0.20, 0.55, "", "assumed: of the bandwidth, by matrix products and the optimiser"
            ),
            Range(0.05, 0.30, "", "assumed: share in communication and in memory"),
        ),
        LoadPhase(
            Range(1, 4, "s", _PAUSE),
            Range(0.0, 0.15, "", _PAUSE),
            Range(0.0, 0.15, "", _PAUSE),
            Range(0.5, 0.9, "", _PAUSE),
        ),
    ),
)

BURSTS: Final = JobKind(
    0.33,
    Range(40, 240, "s", "assumed: as for training"),
    (
        LoadPhase(
            Range(6, 25, "s", _BURST),
            Range(0.55, 1.0, "", _BURST),
            Range(0.40, 0.80, "", "assumed: prefill mixed with decode"),
            Range(0.30, 0.70, "", "assumed: prefill mixed with decode"),
        ),
        LoadPhase(
            Range(6, 25, "s", _BURST),
            Range(0.10, 0.45, "", _BURST),
            Range(0.10, 0.40, "", _BURST),
            Range(0.40, 0.80, "", "assumed: few requests at once are bound by memory more"),
        ),
    ),
)

MEMORY_BOUND: Final = JobKind(
    0.33,
    Range(40, 240, "s", "assumed: as for training"),
    (
        LoadPhase(
            Range(20, 90, "s", "assumed: batches of like requests"),
            Range(0.30, 0.75, "", _DECODE),
            Range(0.70, 1.0, "", _DECODE),
            Range(0.80, 0.97, "", _DECODE),
        ),
    ),
)

KINDS: Final = (TRAINING, BURSTS, MEMORY_BOUND)
BUSY_SHARE: Final = Range(
    0.7, 1.0, "of cards", "assumed: cards that have a job at the start of a run; GPU nodes are dear"
)
IDLE_S: Final = Range(2, 40, "s", "assumed: from the end of a job to the next one's arrival")
RUN_S: Final = 180.0
WARM_S: Final = 10.0
"""The start of a run that is not counted, while the first caps take effect."""

PERTURBATIONS: Final[dict[str, Range]] = {
    "doubled_delay": Range(2, 2, "times", "delay and averaging window of every power sensor"),
    "lost_samples": Range(100, 300, "per mille", "assumed: of all readings fail, each by chance"),
    "stuck_sensor": Range(
        30, 60, "s", "assumed: the power sensor of one card keeps its value for so long"
    ),
    "ambient_step": Range(
        5, 10, "C", "assumed: a fan tray or an air conditioner fails; from 18-32 C this goes to 42"
    ),
}
