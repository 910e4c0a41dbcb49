# SPDX-License-Identifier: Apache-2.0
"""The writers of a node's cards: begun together, told what the plan wants, and ended together.

Invariant: a clock is written only after its original setting is on record. While no writer is at
work, wanted limits are remembered and nothing is set.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from stoker.agent.devices.readings import Absent
from stoker.agent.power.original_settings import OriginalSettings
from stoker.agent.power.plan.action import PowerAction
from stoker.agent.power.setters.card_setters import CardSetter
from stoker.agent.power.setters.card_writer import CardWriter
from stoker.agent.power.setters.cpu_limit_v2 import CpuLimitV2
from stoker.agent.power.setters.record import RecordedSetting
from stoker.agent.power.survey import NodeSurvey
from stoker.native.errors import Refused, Unavailable
from stoker.native.structured_log import structlog

GIVE_BACK_S: Final = 0.35
CLOCKS: Final = "clocks"
"""A setting without a value to restore: it is recorded only when stoker first changes it."""

_log = structlog.get_logger("power")


class Writers:
    """One writer for each card that takes a limit."""

    def __init__(self, originals: OriginalSettings) -> None:
        self._originals = originals
        self._prepared: dict[str, CardWriter] = {}
        self._at_work: dict[str, CardWriter] = {}
        self._limits: dict[str, float] = {}
        """Limits found, and those wanted while nothing is set."""
        self._clocks: dict[str, list[RecordedSetting]] = {}
        """Entries that join the record before the clocks of a card are first limited."""

    @property
    def are_at_work(self) -> bool:
        return bool(self._at_work)

    @property
    def are_prepared(self) -> bool:
        return bool(self._prepared)

    def of(self, card: str) -> CardWriter | None:
        """The card's writer while it is at work."""
        return self._at_work.get(card)

    def prepare(self, survey: NodeSurvey) -> list[RecordedSetting]:
        """Read what each card is set to now; Unavailable if a driver does not answer."""
        takes = {card.id: card for card in survey.cards if card.power is not None}
        asked = {
            id: each
            for id, each in survey.setters.items()
            if id in takes and not isinstance(each, Absent)
        }
        answers = survey.driver_calls.each({id: partial(_set_to, asked[id]) for id in asked})
        found: list[RecordedSetting] = []
        self._prepared, self._limits, self._clocks = {}, {}, {}
        for id, answer in answers.items():
            if isinstance(answer, Absent):
                self._prepared = {}
                raise Unavailable(f"{id}: what it is set to cannot be read: {answer.why}")
            self._limits[id], settings = answer
            self._clocks[id] = [each for each in settings if each.what == CLOCKS]
            found += [each for each in settings if each.what != CLOCKS]
            self._prepared[id] = CardWriter(id, asked[id], takes[id].clocks)
            if isinstance(limit := asked[id], CpuLimitV2):
                limit.note = self._originals.note
        return found

    def start(self) -> None:
        """Put the prepared writers to work; their original settings are on record by now."""
        for id, writer in self._prepared.items():
            writer.start(self._limits[id])
        self._at_work, self._prepared = self._prepared, {}

    def limit_of(self, card: str, now_ns: int) -> tuple[float | None, int]:
        """(limit in watts, when it was read back); the wanted limit while nothing is set."""
        writer = self._at_work.get(card)
        if writer is None:
            return self._limits.get(card), now_ns
        return (
            (writer.back.limit_w, writer.back.t_ns) if writer.back is not None else (None, now_ns)
        )

    def record_clocks(self, actions: Sequence[PowerAction]) -> None:
        """Record the cards whose clocks are about to be limited for the first time.

        After a crash the clocks of recorded cards are released. A card that stoker did not limit is
        not recorded, since somebody else may have limited it.
        """
        clocks = {each.card for each in actions if each.what == CLOCKS}
        first = clocks & self._at_work.keys()
        more = [entry for id in first for entry in self._clocks.get(id, ())]
        if not more:
            return
        try:
            self._originals.note(more)
        except Refused as error:
            _log.warning("clocks are not held", why=error.message)
            return
        for id in first:
            self._clocks[id] = []

    def carry_out(self, action: PowerAction) -> bool:
        """Pass an action to its card's writer; False if it is only observed."""
        writer = self._at_work.get(action.card)
        if action.what == CLOCKS and self._clocks.get(action.card):
            writer = None  # the original setting is not on record
        if writer is not None and action.what == "limit":
            writer.want_limit(action.value)
        elif writer is not None:
            writer.want_clock(action.value)
        elif action.what == "limit":
            self._limits[action.card] = action.value
        return writer is not None

    def give_back(self) -> None:
        """End all writers; each restores its card within GIVE_BACK_S, or the watchdog does."""
        writers, self._at_work, self._prepared = self._at_work, {}, {}
        for writer in writers.values():
            writer.give_back()
        deadline = time.monotonic() + GIVE_BACK_S
        slow = [
            id
            for id, writer in writers.items()
            if not writer.given_back.wait(max(0.0, deadline - time.monotonic()))
        ]
        if slow:
            _log.warning("cards were not given back in time", cards=slow)
            self._originals.restore_next()
        elif writers:
            self._originals.forget()
            self._originals.renew(0)


def _set_to(setter: CardSetter) -> tuple[float, list[RecordedSetting]] | Absent:
    """A card's power limit, and every setting of it that may be changed."""
    limit = setter.power_limit_w()
    if isinstance(limit, Absent):
        return limit
    settings = setter.found()
    return settings if isinstance(settings, Absent) else (limit, settings)
