# SPDX-License-Identifier: Apache-2.0
"""The simulated administrator who changes the roster of a cluster while it works.

He lets spare schedulers enter and others leave, at random moments, and what he proposes may be of
an old roster. Owns that the roster never has fewer schedulers than the genesis, whichever of his
requests still counts: with three one may lose its memory, and each node knows one that stays.
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
from stoker.native.errors import Unavailable

NAME = "administrator"
ASK_MS = (300, 2500)
"""The time between two of his requests."""
LETS_GO, GROWING_LETS_GO = 0.5, 0.2
"""The chance that he lets one go while another one could enter, and that in a cluster which begins
with one."""


class RosterChanger:
    """Changes the roster among these schedulers, of which `kept` at least are always in it."""

    def __init__(
        self,
        around: Surroundings,
        schedulers: list[SchedulerProcess],
        kept: int,
        until_ns: int,
        *,
        stays: int = 0,
    ) -> None:
        """`stays`: the scheduler that never leaves, in a cluster that may have no other one; else
        the nodes would know none that stays."""
        self.changes = 0
        """The changes that he was told to be in force."""
        self._around = around
        self._schedulers = schedulers
        self._kept = kept
        self._stays, self._lets_go = stays, GROWING_LETS_GO if stays else LETS_GO
        self._until_ns = until_ns
        self._chance: random.Random = around.chance
        self._asked = 0
        self._left: set[int] = set()
        """The schedulers that he let go; each enters once."""
        self._open: dict[int, int] = {}
        """The requests to let one go that may still be done, each with the number of schedulers
        that have not refused it. What nobody answers stays open."""
        self._later(None)

    def _later(self, _: None) -> None:
        wait = self._chance.randint(*ASK_MS) * MS
        if self._around.timeline.now + wait < self._until_ns:
            self._around.timeline.after(wait, self._propose, None)

    def _propose(self, _: None) -> None:
        change = self._drawn()
        if change is not None:
            self._asked += 1
            request = SchedulerRequest(NAME, self._asked, _maker(change), self._told)
            heard_by = post(request, self._schedulers)
            if heard_by and not change.member.number:
                self._open[self._asked] = heard_by
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
        may_go = [each.number for each in there if each.number != self._stays]
        if may_go and self._may_let_go and (not new or self._chance.random() < self._lets_go):
            gone = self._chance.choice(may_go)
            self._left.add(gone)
            return roster_change.leaving(config.schedulers, gone)
        if not new:
            return None
        return RosterBlob(new[0].number - 1, RosterMember(new[0].number, new[0].signer.public))

    @property
    def _may_let_go(self) -> bool:
        """True if enough would stay, also if all that is open would be done."""
        newest = max(self._schedulers, key=lambda each: each.replica.state.index)
        config = newest.replica.state.config
        there = len([*roster_change.present(config.schedulers)]) if config is not None else 0
        return there - len(self._open) > self._kept

    def _told(self, answered: SchedulerAnswer) -> None:
        value = answered.value
        if isinstance(value, AdminApplied):
            self._open.pop(answered.number, None)
            self.changes += 1
            self._around.story.tell("the roster changes at {}", answered.scheduler)
        elif answered.number in self._open and type(value) is not Unavailable:
            self._refused(answered.number)

    def _refused(self, number: int) -> None:
        self._open[number] -= 1
        if not self._open[number]:
            del self._open[number]


def _maker(change: RosterBlob) -> Any:
    return lambda token: events.RosterChange(token, change)
