# SPDX-License-Identifier: Apache-2.0
"""The door for what nodes send to a scheduler: each is read up to a rate, and a flood is told.

Pure; time comes in as an argument. Owns that a node which sends without an end costs the other
nodes and the users a look at each of its subjects, and no message of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from stoker.mesh.server.fair_queue import NS, Rate
from stoker.mesh.wire import subjects
from stoker.mesh.wire.telemetry import ChangeRow
from stoker.native.errors import BadRequest

OBSERVATIONS_PER_S = 20
LEASES_PER_S = 50
REQUESTS_PER_S: Mapping[str, int] = {"hello": 20, "range": 1000, "outcome": 2000}
"""The messages of one node in a second, after a burst of a second's worth. An agent has one of each
request under way at a time, sends one observation a second and a lease request each 0.1 s."""
TELL_NS = 10_000_000_000
"""The time between two events about one node."""
SUBJECTS_MAX = 8192
"""The most subjects that are told apart; the broker lets a key publish on a few."""

T = TypeVar("T")


class NodeDoor:
    """The door for one kind of messages; `rate_of` gives the rate of a subject, `node_of` its
    sender."""

    def __init__(
        self,
        rate_of: Callable[[str], int],
        node_of: Callable[[str], str],
        count: Callable[[str], None],
    ) -> None:
        self._rate_of = rate_of
        self._node_of = node_of
        self._count = count
        self._rates: dict[str, Rate] = {}
        self._unread: dict[str, int] = {}
        self._told_ns: dict[str, int] = {}
        self._blamed_ns: dict[str, int] = {}

    def admits(self, subject: str, now_ns: int) -> bool:
        """Return True if a message on this subject is to be read."""
        rate = self._rates.get(subject)
        if rate is None:
            rate = Rate(self._rate_of(subject))
            _put(self._rates, subject, rate)
        if rate.ready_ns() > now_ns:
            self._count("node_message_unread")
            _put(self._unread, subject, self._unread.get(subject, 0) + 1)
            return False
        rate.spend(1, now_ns)
        return True

    def blame(self, subject: str, now_ns: int) -> bool:
        """Charge a message that could not be understood as a second's worth, since an agent sends
        none; return True if it is to be told and answered, which the next ones are not."""
        rate = self._rates.get(subject)
        if rate is not None and rate.ready_ns() < now_ns + NS:
            rate.spend(rate.per_s, now_ns)
        if now_ns - self._blamed_ns.get(subject, -NS) < NS:
            return False
        _put(self._blamed_ns, subject, now_ns)
        return True

    def due(self, now_ns: int, real_ns: int) -> Iterator[ChangeRow]:
        """Yield the events about nodes of which messages were not read, as far as they are due."""
        for subject, unread in list(self._unread.items()):
            told_ns = self._told_ns.get(subject)
            if told_ns is not None and now_ns - told_ns < TELL_NS:
                continue
            _put(self._told_ns, subject, now_ns)
            del self._unread[subject]
            yield self._row(subject, unread, real_ns)

    def _row(self, subject: str, unread: int, real_ns: int) -> ChangeRow:
        try:
            node = self._node_of(subject)
        except BadRequest:
            node = ""
        what = subject.removeprefix(f"{subjects.PREFIX}.")
        reason = f"it sends more than a node may: {unread:,} messages on {what} were not read"
        return ChangeRow(t_ns=real_ns, what="node.flooded", node=node, reason=reason)


def _put(table: dict[str, T], subject: str, value: T) -> None:
    """Set what is known of a subject; a table that is full is begun anew."""
    if subject not in table and len(table) >= SUBJECTS_MAX:
        table.clear()
    table[subject] = value
