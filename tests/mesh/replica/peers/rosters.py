# SPDX-License-Identifier: Apache-2.0
"""Rosters that never change, for the parts of a replica that count schedulers."""

from __future__ import annotations

from stoker.mesh.log.genesis import RosterMember
from stoker.mesh.replica.peers.quorum import Quorum


def quorum(*numbers: int) -> Quorum:
    """Return the quorum of these schedulers."""
    members = tuple(RosterMember(number, f"U{number}") for number in numbers)
    return Quorum(lambda: members)
