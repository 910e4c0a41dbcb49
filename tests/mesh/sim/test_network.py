# SPDX-License-Identifier: Apache-2.0
"""Messages are lost by chance or by a cut alone, and a cut has one direction."""

from __future__ import annotations

import random

from stoker.mesh.sim.network import NO_FAULTS, NetworkFaults, SimNetwork
from stoker.mesh.sim.timeline import SECOND, Timeline


def sent(faults: NetworkFaults, count: int = 1000) -> tuple[SimNetwork, list[int]]:
    timeline = Timeline()
    network, seen = SimNetwork(timeline, random.Random(7), faults), list[int]()
    for number in range(count):
        network.post("a", "b", seen.append, number)
    timeline.run(10 * SECOND)
    return network, seen


def test_without_faults_everything_arrives_once() -> None:
    _, seen = sent(NO_FAULTS)
    assert sorted(seen) == list(range(1000))


def test_losses_and_doubles_are_counted() -> None:
    network, seen = sent(NetworkFaults(lost=0.2, twice=0.2, late=0.1))
    assert len(seen) == 1000 - network.counts["lost"] + network.counts["twice"]
    assert min(network.counts[name] for name in ("lost", "twice", "late")) > 50
    assert seen != sorted(seen)


def test_a_cut_has_one_direction_and_an_end() -> None:
    timeline = Timeline()
    network, seen = SimNetwork(timeline, random.Random(1), NO_FAULTS), list[str]()
    network.cut("a", "b")
    network.post("a", "b", seen.append, "cut")
    network.link("a", "b", seen.append, "cut too")
    network.post("b", "a", seen.append, "back")
    network.mend("a", "b")
    network.link("a", "b", seen.append, "mended")
    timeline.run(SECOND)
    assert sorted(seen) == ["back", "mended"]
    assert network.counts["cut"] == 2
