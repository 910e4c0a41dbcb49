# SPDX-License-Identifier: Apache-2.0
"""The speeds of device models once more, dumb: every sample ever taken, in the order of time."""

from __future__ import annotations

from copy import deepcopy
from statistics import median_high, median_low

from stoker.scheduler import records as rec
from stoker.scheduler.effects import Speed
from stoker.scheduler.wire_names import SPEED_SAMPLES_MAX, SPEEDS_MAX, Measure

RAN = {rec.STATE_CODES[state] for state in ("succeeded", "timeout", "cancelled")}
SUCCEEDED = rec.STATE_CODES["succeeded"]
LONGEST_NS = 1 << 56
UNKNOWN = 1 << 30
STEPS = 20

Key = tuple[int, int, int]
"""A series, a model and a measure."""


class Speeds:
    """Everything that jobs have told; who told last stands last."""

    def __init__(self) -> None:
        self.samples: dict[Key, list[int]] = {}

    def clone(self) -> Speeds:
        return deepcopy(self)

    def told(self, request: rec.Submit, models: set[int], outcome: rec.TaskOutcome) -> None:
        """Take what the end of a task says; `models` are those of its devices, 0 for unknown."""
        (model,) = models if len(models) == 1 else (0,)
        if not request.series or not model or outcome.task or outcome.state not in RAN:
            return
        if outcome.launch_ns:
            self.add((request.series, model, Measure.LAUNCH), outcome.launch_ns)
        if outcome.run_ns and outcome.state == SUCCEEDED and request.tasks == 1:
            self.add((request.series, model, Measure.RUN), outcome.run_ns)

    def add(self, key: Key, ns: int) -> None:
        kept = self.samples.pop(key, [])
        if len(self.samples) == SPEEDS_MAX:
            del self.samples[next(iter(self.samples))]
        self.samples[key] = [*kept, min(ns, LONGEST_NS)]

    def views(self) -> list[Speed]:
        return [
            Speed(
                series, model, measure, len(all_ns),
                (median_low(ns) + median_high(ns)) // 2, min(ns), max(ns),
            )
            for (series, model, measure), all_ns in self.samples.items()
            if (ns := all_ns[-SPEED_SAMPLES_MAX:])
        ]  # fmt: skip

    def slowness(self, series: int, model: int) -> int:
        """The time of a unit of work in twentieths of that of the fastest model."""
        of: dict[int, dict[int, int]] = {Measure.LAUNCH: {}, Measure.RUN: {}}
        for view in self.views():
            if view.series == series:
                of[view.measure][view.model] = view.median_ns
        measure = max(of, key=lambda measure: (len(of[measure]), -measure))
        if not series or model not in of[measure]:
            return UNKNOWN
        return of[measure][model] * STEPS // min(of[measure].values())
