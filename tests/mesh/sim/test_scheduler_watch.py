# SPDX-License-Identifier: Apache-2.0
"""The watch judges what goes to several schedulers once, and finds all that it would find if it
judged every message and looked at every disk anew."""

from __future__ import annotations

import pytest

from stoker.agent.sim.world import World, shape_of
from stoker.mesh.replica import events
from stoker.mesh.sim.durability_audit import NOWHERE, DiskEnd, DurabilityAudit
from stoker.mesh.sim.scheduler_disk import SchedulerDisk
from stoker.mesh.sim.scheduler_watch import SchedulerWatch
from tests.agent.sim.mutants.planting import planted
from tests.agent.sim.mutants.table import MUTANTS

WRONG = ("confirm-alone", "confirm-any-hash", "promise-lost", "store-nothing")


def found(seed: int) -> tuple[list[str], bytes, int]:
    """Return the sentences of a seed, each once, and the end of its log."""
    world = World(seed, shape_of(seed))
    try:
        world.run()
    except Exception as error:  # planted faults may break the replica as well
        world.audit.violated(repr(error))
    last = world.audit.known[world.audit.last]
    return list(dict.fromkeys(world.audit.violations)), last.trail, world.timeline.delivered


def look_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the watch remember nothing."""
    sent = SchedulerWatch._send

    def send(self: SchedulerWatch, scheduler: object, effect: events.SendPeer) -> None:
        self._said = None
        sent(self, scheduler, effect)  # type: ignore[arg-type]

    def end(self: DurabilityAudit, disk: SchedulerDisk) -> DiskEnd:
        snapshot = disk.snapshot_place or NOWHERE
        held = self.place(disk.held[-1][1]) if disk.held else NOWHERE
        end = held if held.index > snapshot.index else snapshot
        return DiskEnd(disk.version, end, end.rank, max(end.rank, disk.floor))

    monkeypatch.setattr(SchedulerWatch, "_send", send)
    monkeypatch.setattr(DurabilityAudit, "_end", end)


@pytest.mark.parametrize("name", WRONG)
def test_it_finds_what_a_watch_without_memory_finds(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == name)
    with planted(mutant):
        remembers = [found(seed) for seed in (3, 8)]
        look_every_time(monkeypatch)
        forgets = [found(seed) for seed in (3, 8)]
    assert remembers == forgets
    assert name == "confirm-any-hash" or any(sentences for sentences, _, _ in forgets)


def test_a_world_without_faults_planted_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    remembers = found(7)
    look_every_time(monkeypatch)
    assert found(7) == remembers
