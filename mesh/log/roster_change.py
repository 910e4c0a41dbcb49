# SPDX-License-Identifier: Apache-2.0
"""A change of the roster by an entry: which one may be, and the roster behind it.

Pure; the state, the judgement of entries and the leader's refusals stand on it. Owns two rules: an
entry takes one scheduler in or lets one go, so that each majority before it shares a scheduler with
each majority behind it; and every other scheduler keeps its place, by which it owns its terms.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.mesh.log.entry import Entry, RosterBlob
from stoker.mesh.log.genesis import (
    SCHEDULERS_MAX,
    VACANT,
    ClusterConfig,
    Genesis,
    RosterMember,
)

Members = tuple[RosterMember, ...]
KEPT_MIN = 2
"""So many schedulers stay in a cluster that is not replicated: one alone leads there by rules of
its own."""


def kept_min(cluster: Genesis | ClusterConfig | None) -> int:
    """Return how many schedulers a cluster keeps, which its genesis decides."""
    return 1 if cluster is not None and cluster.replicated else KEPT_MIN


def present(members: Members) -> Iterator[RosterMember]:
    """Yield the schedulers of a roster without its vacant places."""
    return (each for each in members if each != VACANT)


def keys(members: Members) -> tuple[str, ...]:
    """Return the public keys by place, empty where a scheduler has left."""
    return tuple(each.public_key for each in members)


def of(entry: Entry) -> RosterBlob | None:
    """Return the change that an entry states; of several in one entry, the first counts alone."""
    for blob in entry.blobs:
        if isinstance(blob, RosterBlob):
            return blob
    return None


def following(members: Members, entry: Entry, kept: int = KEPT_MIN) -> Members:
    """Return the roster behind an entry; the same one if the entry changes nothing."""
    change = of(entry)
    may_not_be = change is None or defect(members, change, kept)
    return members if change is None or may_not_be else changed(members, change)


def changed(members: Members, change: RosterBlob) -> Members:
    """Return the roster behind a change that may be."""
    filled = [*members, *[VACANT] * (change.place + 1 - len(members))]
    filled[change.place] = change.member
    return tuple(filled)


def defect(members: Members, change: RosterBlob, kept: int = KEPT_MIN) -> str:
    """Return why a change of this roster, of which so many stay, may not be; empty if it may."""
    if not 0 <= change.place < SCHEDULERS_MAX:
        return f"a roster has {SCHEDULERS_MAX} places"
    here = members[change.place] if change.place < len(members) else VACANT
    if change.member == VACANT:
        return _no_leave(members, here, kept)
    return _no_entry(members, here, change.member, kept)


def _no_leave(members: Members, here: RosterMember, kept: int) -> str:
    if here == VACANT:
        return "no scheduler has this place"
    if len([*present(members)]) <= kept:
        return f"a cluster of several schedulers keeps {kept}"
    return ""


def _no_entry(members: Members, here: RosterMember, new: RosterMember, kept: int) -> str:
    if here != VACANT:
        return "another scheduler has this place: it has to leave before, by an entry of its own"
    if len([*present(members)]) < kept:
        return "one scheduler alone takes no other one beside it"
    for each in present(members):
        if new.number == each.number or new.public_key == each.public_key:
            return "this scheduler is in the roster already"
    return "" if new.number and new.public_key else "a scheduler has a number and a key"


def leaving(members: Members, number: int) -> RosterBlob | None:
    """Return the change with which a scheduler leaves; None if it is not in the roster."""
    places = [place for place, each in enumerate(members) if each.number == number]
    return RosterBlob(places[0], VACANT) if number and places else None


def entering(members: Members, new: RosterMember) -> RosterBlob:
    """Return the change with which a scheduler enters: at a place that nobody had, if there is one.

    So a scheduler that left shares its terms with no other one for as long as possible.
    """
    if len(members) < SCHEDULERS_MAX:
        return RosterBlob(len(members), new)
    places = [place for place, each in enumerate(members) if each == VACANT]
    return RosterBlob(places[0] if places else SCHEDULERS_MAX, new)
