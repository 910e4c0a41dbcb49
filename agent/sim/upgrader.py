# SPDX-License-Identifier: Apache-2.0
"""The simulated administrator who upgrades the schedulers of a cluster one by one while it works.

He exchanges builds at random moments, now and then back, asks for the newer level whenever he
likes, and lets one return too old after it was raised. Owns that at the end all are of the newer
build, so that whatever he did is healed then.
"""

from __future__ import annotations

import random
from typing import Final

from stoker.mesh.log.feature_level import BUILD, FeatureRange
from stoker.mesh.replica import events
from stoker.mesh.replica.works.work import AdminApplied
from stoker.mesh.sim.scheduler_process import (
    SchedulerAnswer,
    SchedulerProcess,
    SchedulerRequest,
    Surroundings,
    post,
)
from stoker.mesh.sim.timeline import MS

NAME = "upgrader"
STEP_MS = (200, 1200)
"""The time between two things that he does."""
OLD: Final = FeatureRange(BUILD.oldest, BUILD.oldest)
"""The levels of the older build."""
ASKS, BACK, TOO_OLD = 0.3, 0.15, 0.2
"""The chances that he asks for the newer level, goes back with a server, or does so too late."""


class Upgrader:
    """Upgrades these schedulers, which begin with the older build, until this moment."""

    def __init__(
        self, around: Surroundings, schedulers: list[SchedulerProcess], until_ns: int
    ) -> None:
        self.exchanges = 0
        """The exchanges of a scheduler's build."""
        self.too_old = 0
        """The starts of an older build after he was told of the raise."""
        self.is_raised = False
        """True once he was told that the level was raised."""
        self._around = around
        self._schedulers = schedulers
        self._until_ns = until_ns
        self._chance: random.Random = around.chance
        self._asked = 0
        self._later(None)

    def finish(self) -> None:
        """Have every scheduler be of the newer build."""
        for each in self._schedulers:
            if each.supports != BUILD:
                self._exchange(each, BUILD)

    def _later(self, _: None) -> None:
        wait = self._chance.randint(*STEP_MS) * MS
        if self._around.timeline.now + wait < self._until_ns:
            self._around.timeline.after(wait, self._step, None)

    def _step(self, _: None) -> None:
        """Ask, or exchange the build of one scheduler."""
        old = [each for each in self._schedulers if each.supports == OLD]
        drawn = self._chance.random()
        if drawn < ASKS:
            self._request()
        elif old:
            self._exchange(self._chance.choice(old), BUILD)
        elif drawn < ASKS + (TOO_OLD if self.is_raised else BACK):
            self._exchange(self._chance.choice(self._schedulers), OLD)
        self._later(None)

    def _request(self) -> None:
        self._asked += 1
        request = SchedulerRequest(
            NAME, self._asked, lambda token: events.Upgrade(token, {}), self._told
        )
        post(request, self._schedulers)

    def _told(self, answered: SchedulerAnswer) -> None:
        if isinstance(answered.value, AdminApplied):
            self.is_raised |= answered.value.changed
            self._around.story.tell("{} says that the level is raised", answered.scheduler)

    def _exchange(self, scheduler: SchedulerProcess, supports: FeatureRange) -> None:
        """Let a process end and start as another build, as a service manager does."""
        self.exchanges += 1
        self.too_old += self.is_raised and supports == OLD
        self._around.story.tell("{} is now of a build with {}", scheduler.name, supports.text)
        scheduler.supports = supports
        if scheduler.alive:
            scheduler.go_on()
            scheduler.crash()
            scheduler.start()
