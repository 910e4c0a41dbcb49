# SPDX-License-Identifier: Apache-2.0
"""The simulated administrator who changes the roster of a cluster while it works.

He lets spare schedulers enter and others leave, at random moments, and knows only what he is told.
Owns that he never goes below the schedulers of the genesis, so that one more may lose its memory.
"""

from __future__ import annotations

import random
from typing import Any

from stoker.mesh.log import roster_change
from stoker.mesh.log.entry import RosterBlob
from stoker.mesh.log.genesis import RosterMember
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

NAME = "administrator"
ASK_MS = (300, 2500)
"""The time between two of his requests."""


class RosterChanger:
    """Changes the roster among these schedulers, of which `kept` at least are always in it."""

    def __init__(
        self, around: Surroundings, schedulers: list[SchedulerProcess], kept: int, until_ns: int
    ) -> None:
        self.changes = 0
        """The changes that he was told to be in force."""
        self._around = around
        self._schedulers = schedulers
        self._kept = kept
        self._until_ns = until_ns
        self._chance: random.Random = around.chance
        self._asked = 0
        self._left: set[int] = set()
        """The schedulers that he let go; each enters once."""
        self._later(None)

    def _later(self, _: None) -> None:
        wait = self._chance.randint(*ASK_MS) * MS
        if self._around.timeline.now + wait < self._until_ns:
            self._around.timeline.after(wait, self._propose, None)

    def _propose(self, _: None) -> None:
        change = self._drawn()
        if change is not None:
            self._asked += 1
            post(SchedulerRequest(NAME, self._asked, _maker(change), self._told), self._schedulers)
        self._later(None)

    def _drawn(self) -> RosterBlob | None:
        """Return a change of the roster that some scheduler knows, be it old."""
        one = self._chance.choice([each for each in self._schedulers if each.alive] or [None])
        config = one.replica.state.config if one is not None else None
        if config is None:
            return None
        there = [*roster_change.present(config.schedulers)]
        numbers = {each.number for each in there}
        new = [e for e in self._schedulers if e.number not in numbers | self._left]
        if len(there) > self._kept and (not new or self._chance.random() < 0.5):
            gone = self._chance.choice(there).number
            self._left.add(gone)
            return roster_change.leaving(config.schedulers, gone)
        if not new:
            return None
        return RosterBlob(new[0].number - 1, RosterMember(new[0].number, new[0].signer.public))

    def _told(self, answered: SchedulerAnswer) -> None:
        if isinstance(answered.value, AdminApplied):
            self.changes += 1
            self._around.story.tell("the roster changes at {}", answered.scheduler)


def _maker(change: RosterBlob) -> Any:
    return lambda token: events.RosterChange(token, change)
