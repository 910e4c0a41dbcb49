# SPDX-License-Identifier: Apache-2.0
"""A trap springs once, at a message of its kind."""

from __future__ import annotations

from stoker.mesh.sim.ambush import Ambush
from stoker.mesh.wire.peer_messages import Diverged, FetchRequest


def test_a_trap_springs_once_at_its_kind() -> None:
    ambush, sprung = Ambush(), list[tuple[int, int]]()
    ambush.lay(FetchRequest, lambda sender, receiver, _: sprung.append((sender, receiver)))
    ambush.sent(1, 2, Diverged(1))
    assert sprung == []
    ambush.sent(1, 2, FetchRequest(3))
    ambush.sent(2, 3, FetchRequest(3))
    assert sprung == [(1, 2)]


def test_traps_that_were_taken_away_do_not_spring() -> None:
    ambush, sprung = Ambush(), list[int]()
    ambush.lay(FetchRequest, lambda sender, receiver, _: sprung.append(sender))
    ambush.clear()
    ambush.sent(1, 2, FetchRequest(3))
    assert sprung == []
