# SPDX-License-Identifier: Apache-2.0
"""The watts of each device model, unused and full, from what its cards report or from a file.

Without I/O. Invariant: a model is told only with both figures, and told again only when one moved
by more than noise, since every change voids the core's ratings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stoker.scheduler.hints import ModelPower
from stoker.scheduler.nouns import DeviceSample

IDLE_BUSY: Final = 0.01
"""A device that works less than this share of the time is unused."""
STEP_W: Final = 1.0
"""An idle power that is lower by at most this is the same."""
STEP_SHARE: Final = 0.05


class ModelWatts:
    """The watts of all models that were seen. Those of `given` are never changed by readings."""

    def __init__(self, given: Mapping[str, ModelPower] | None = None) -> None:
        self.given = dict(given or {})
        self._idle: dict[str, float] = {}
        self._full: dict[str, float] = {}
        self._told: dict[str, ModelPower] = {}
        self.unsaid = bool(self.given)
        """True if the watts of the file were not told yet."""

    def all(self) -> list[tuple[str, ModelPower]]:
        """Return the watts of every model, to be told at once."""
        self.unsaid = False
        return [*self.given.items(), *self._told.items()]

    def saw(self, model: str, seen: DeviceSample) -> ModelPower | None:
        """Take a sample of a device of this model; return its watts if they have to be told."""
        if not model or model in self.given:
            return None
        if self._is_known(model, seen):
            return None
        if seen.power_limit_w is not None:
            self._full[model] = max(seen.power_limit_w, self._full.get(model, 0.0))
        if seen.power_w is not None and seen.busy_ratio is not None and seen.busy_ratio < IDLE_BUSY:
            self._idle[model] = min(seen.power_w, self._idle.get(model, seen.power_w))
        if model not in self._idle or model not in self._full:
            return None
        found = ModelPower(min(self._idle[model], self._full[model]), self._full[model])
        if not _differs(found, self._told.get(model)):
            return None
        self._told[model] = found
        return found

    def _is_known(self, model: str, seen: DeviceSample) -> bool:
        """True if this sample shows neither more nor less than those before; nearly all do not."""
        most, least = self._full.get(model), self._idle.get(model)
        if most is None or least is None:
            return False
        full, watts, busy = seen.power_limit_w, seen.power_w, seen.busy_ratio
        idles = watts is not None and watts < least and busy is not None and busy < IDLE_BUSY
        return not idles and (full is None or full <= most)


def _differs(found: ModelPower, told: ModelPower | None) -> bool:
    if told is None:
        return True
    step = max(STEP_W, STEP_SHARE * told.idle_w)
    return found.full_w > told.full_w or found.idle_w < told.idle_w - step
