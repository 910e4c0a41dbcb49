# SPDX-License-Identifier: Apache-2.0
"""The members of the gossip mesh as one host's Serf agent holds them.

Pure. Owns that ignorance is no member's state: while the agent cannot be asked, the table has the
reason and no rows, so that nobody reads an old `failed` as news. Times are seconds of
CLOCK_REALTIME, for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stoker.mesh.gossip.serf_records import SerfEvent, SerfMember

ALIVE, LEAVING, LEFT, FAILED = "alive", "leaving", "left", "failed"
MEMBERS_MAX = 4096
"""The most members that are kept; further ones are counted."""

_STATES = {
    "member-join": ALIVE,
    "member-update": ALIVE,
    "member-leave": LEFT,
    "member-failed": FAILED,
}
REAPED = "member-reap"
EVENTS = ",".join((*_STATES, REAPED))
"""The kinds of events that change members, as a stream of Serf takes them."""


class KnownMember(NamedTuple):
    """One member, and since when this host has known it in this state."""

    name: str
    address: str
    state: str
    since_s: float
    tags: tuple[tuple[str, str], ...] = ()


class MemberChange(NamedTuple):
    """A member that came to another state; `before` is empty for a new one."""

    name: str
    before: str
    state: str


class Membership:
    """The table of members. `absent` is why there is none; empty while there is one."""

    def __init__(self, absent: str) -> None:
        self.absent = absent
        self.rows: dict[str, KnownMember] = {}
        self.dropped = 0
        """The members beyond MEMBERS_MAX, which are not kept."""

    def lost(self, why: str) -> None:
        """Note that the agent cannot be asked, and why."""
        self.absent = why
        self.rows = {}

    def read(
        self,
        members: Iterable[SerfMember],
        now_s: float,
        seen: Mapping[str, tuple[str, float]] | None = None,
    ) -> list[MemberChange]:
        """Take the agent's whole list; return what changed. `seen`: the states that were known
        before the table was lost, and since when."""
        self.absent = ""
        for name, (state, since_s) in (seen or {}).items():
            self.rows.setdefault(name, KnownMember(name, "", state, since_s))
        listed = {each.name: each for each in members}
        gone = [name for name in self.rows if name not in listed]
        changes = [MemberChange(name, self.rows.pop(name).state, "") for name in gone]
        return changes + self._put(listed.values(), now_s)

    def follow(self, event: SerfEvent, now_s: float) -> list[MemberChange]:
        """Take an event of the agent's stream; return what changed."""
        if event.event == REAPED:
            gone = [each.name for each in event.members if each.name in self.rows]
            return [MemberChange(name, self.rows.pop(name).state, "") for name in gone]
        state = _STATES.get(event.event)
        return self._put(event.members, now_s, state) if state is not None else []

    def _put(
        self, members: Iterable[SerfMember], now_s: float, state: str | None = None
    ) -> list[MemberChange]:
        changes: list[MemberChange] = []
        for each in members:
            former, now = self.rows.get(each.name), state or each.status
            if former is None and len(self.rows) >= MEMBERS_MAX:
                self.dropped += 1
                continue
            same = former is not None and former.state == now
            since_s = former.since_s if former is not None and same else now_s
            tags = tuple(sorted((each.tags or {}).items()))
            self.rows[each.name] = KnownMember(each.name, each.address, now, since_s, tags)
            if not same:
                before = former.state if former is not None else ""
                changes.append(MemberChange(each.name, before, now))
        return changes

    def state(self, name: str) -> str:
        """Return a member's state; empty if it is no member or the agent cannot be asked."""
        row = self.rows.get(name)
        return row.state if row is not None else ""

    def others_alive(self, own: str) -> int:
        """Return how many members besides this host are alive."""
        return sum(row.state == ALIVE and name != own for name, row in self.rows.items())
