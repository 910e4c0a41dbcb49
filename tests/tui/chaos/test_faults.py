# SPDX-License-Identifier: Apache-2.0
"""A fault of a cable spoils what its name says, within its bounds, and mends it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from stoker.tui.chaos import faults
from stoker.tui.chaos.faults import FaultKind, Hit
from stoker.tui.chaos.frame_queue import CableQuality
from stoker.tui.demo.network_hosts import Host

SPOILS = [kind for kind in faults.KINDS if kind.spoils_cable]


class CableOnPaper:
    """A cable that notes how bad a fault wants it, and what was done with it."""

    def __init__(self, host: Host, qualities: Mapping[str, CableQuality], seed: int) -> None:
        self.host, self.qualities, self.done = host, qualities, list[str]()

    def put_in(self) -> None:
        self.done.append("put in")

    def mend(self) -> None:
        self.done.append("mended")


def done(kind: FaultKind, seed: int) -> CableOnPaper:
    host = Host("first", "10.0.0.1", Path("/nowhere"), "first", "sk1")
    hit = Hit(host, (), random.Random(seed), [])

    async def whole() -> None:
        await kind.begin(hit)
        await kind.end(hit)

    asyncio.run(whole())
    (cable,) = hit.cables
    assert isinstance(cable, CableOnPaper) and cable.host is host
    return cable


@pytest.mark.parametrize("kind", SPOILS, ids=lambda kind: kind.name)
def test_a_cable_is_as_bad_as_its_fault_says(
    kind: FaultKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "BadCable", CableOnPaper)
    cables = [done(kind, seed) for seed in range(50)]
    ways = {"sends": {"sent"}, "hears": {"heard"}}.get(kind.name.split()[-1], {"sent", "heard"})
    losses, delays = set[float](), set[float]()
    for cable in cables:
        assert cable.done == ["put in", "mended"]
        assert set(cable.qualities) == ways
        for loss, delay_s, jitter_s in cable.qualities.values():
            losses.add(loss), delays.add(delay_s)
            assert 0 <= jitter_s <= faults.JITTER * delay_s
    bad, least, most = (losses, *faults.LOSS) if "loses" in kind.name else (delays, *faults.DELAY_S)
    assert least <= min(bad) < max(bad) <= most
    assert len(bad) == 50, "each fault has its own"
    assert (delays if "loses" in kind.name else losses) == {0.0}


def test_all_roles_have_both_and_each_way_alone() -> None:
    assert len(SPOILS) == 14
    assert {kind.role for kind in SPOILS} == {"leader", "follower", "log"}
