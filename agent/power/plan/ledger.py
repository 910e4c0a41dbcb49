# SPDX-License-Identifier: Apache-2.0
"""The most that cards may draw now: limits confirmed by the devices, and the uncapped rest.

Invariant: `committed_w` is at least the sum of the limits on the devices, whichever writes are
under way, lost or late. A raised limit counts from before it is written. A lowered limit counts
only when it was read back, and the card either had time to obey it or draws less anyway. A card off
the bus draws nothing, and counts with the power that it needs when it comes back.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stoker.agent.power.plan.card import PowerCard, PowerSample

SETTLE_NS = 100_000_000
"""The time from reading back a lowered limit until the card draws no more than that. A card that
draws less than its new limit needs no time."""
BELOW = 0.9
"""A reading below this share of the new limit is below it whatever the sensor's error."""
SAME_W = 1.0
"""Limits within a watt count as equal, since drivers round."""
LOST_NS = 2_000_000_000
"""A card that answered nothing for so long counts as at its default limit, if that is higher: it
may have been reset."""
PENDING_NS = 2_000_000_000
"""A write that no reading has confirmed for this long was lost."""
UNCAPPED_ERROR = 0.05
UNCAPPED_OFFSET_W = 5.0
"""Error bound of a power reading: 5 % of it (arXiv 2312.02741) and a little."""


class _Entry(msgspec.Struct):
    card: PowerCard
    confirmed_w: float
    seen_ns: int
    pending_w: float | None = None
    pending_ns: int = 0
    falling: list[tuple[int, float]] = msgspec.field(default_factory=list)
    """(until, watts) of earlier, higher limits, which the card may still draw until then."""
    power_w: float | None = None
    power_ns: int = 0
    highest_w: float = 0.0
    """The highest draw ever read."""
    deaf: bool = False
    """True if the card did not take its last write."""
    gone: bool = False
    """True while the card is off the bus and draws nothing."""


class Ledger:
    """Reserved watts of every card."""

    def __init__(self, cards: Iterable[PowerCard], now_ns: int) -> None:
        self._entries = {
            card.id: _Entry(card, card.power.max_w if card.power else 0.0, now_ns) for card in cards
        }
        self.lost_writes = 0
        self.foreign = 0
        """Counts limits that somebody else changed."""

    def read(self, reading: PowerSample) -> None:
        """Take in one card's sample."""
        entry = self._entries[reading.card]
        entry.gone = reading.gone
        if reading.gone:
            return
        if reading.power_w is not None:
            entry.power_w, entry.power_ns = reading.power_w, reading.t_ns
            entry.highest_w = max(entry.highest_w, reading.power_w)
        if reading.limit_w is None or entry.card.power is None or reading.t_ns < entry.seen_ns:
            return
        limit = reading.limit_w
        if entry.pending_w is not None and reading.t_ns > entry.pending_ns:
            if abs(limit - entry.pending_w) <= SAME_W:
                entry.pending_w, entry.deaf = None, False
            elif reading.t_ns - entry.pending_ns > PENDING_NS:
                entry.pending_w, entry.deaf = None, True
                self.lost_writes += 1
        elif entry.pending_w is None and abs(limit - entry.confirmed_w) > SAME_W:
            self.foreign += 1
        below = reading.power_w is not None and reading.power_w < BELOW * limit
        if limit < entry.confirmed_w - SAME_W and not below:
            entry.falling.append((reading.t_ns + SETTLE_NS, entry.confirmed_w))
        entry.confirmed_w = limit
        entry.seen_ns = reading.t_ns

    def wrote(self, card: str, limit_w: float, now_ns: int) -> None:
        """Reserve a limit that is about to be written."""
        entry = self._entries[card]
        if entry.pending_w is not None and entry.pending_w > limit_w:
            # The earlier write may still take hold: the higher counts until this one is seen.
            entry.falling.append((now_ns + PENDING_NS, entry.pending_w))
        entry.pending_w, entry.pending_ns = limit_w, now_ns

    def confirmed_w(self, card: str) -> float:
        """The limit last read back."""
        return self._entries[card].confirmed_w

    def is_pending(self, card: str) -> bool:
        """True if a write has not been read back yet."""
        return self._entries[card].pending_w is not None

    def counted_w(self, card: str, now_ns: int) -> float:
        """The most that this card may be drawing by now."""
        entry = self._entries[card]
        if entry.gone:
            return entry.card.return_w
        if entry.card.power is None:
            return _uncapped_w(entry, now_ns)
        entry.falling = [each for each in entry.falling if each[0] > now_ns]
        most = max([entry.confirmed_w, *(watts for _, watts in entry.falling)])
        if entry.pending_w is not None:
            most = max(most, entry.pending_w)
        if now_ns - entry.seen_ns > LOST_NS:
            most = max(most, entry.card.power.default_w)
        return most

    def is_gone(self, card: str) -> bool:
        """True if it was off the bus when last read."""
        return self._entries[card].gone

    def lost(self, now_ns: int) -> list[str]:
        """Return the cards with limits that are off the bus, give no readings or ignore writes."""
        return [
            id
            for id, entry in self._entries.items()
            if entry.card.power is not None
            and (entry.gone or entry.deaf or now_ns - entry.seen_ns > LOST_NS)
        ]

    def committed_w(self, now_ns: int) -> float:
        """Return the sum of `counted_w` over all cards."""
        return sum(self.counted_w(card, now_ns) for card in self._entries)

    def uncapped_w(self, now_ns: int) -> float:
        """Return the sum of `counted_w` over the cards without limits."""
        return sum(
            self.counted_w(id, now_ns)
            for id, entry in self._entries.items()
            if entry.card.power is None
        )


def _uncapped_w(entry: _Entry, now_ns: int) -> float:
    """Return the most that a card without limits may be drawing.

    That is its measured draw with the error of the sensor. If the newest measurement is too old, it
    is the highest draw that was ever measured or declared.
    """
    if entry.power_w is None:
        return entry.card.most_w
    silent = now_ns - entry.power_ns > LOST_NS
    power = entry.highest_w if silent else entry.power_w
    most = power * (1 + UNCAPPED_ERROR) + UNCAPPED_OFFSET_W
    return max(most, entry.card.most_w) if silent else most
