# SPDX-License-Identifier: Apache-2.0
"""The replica in a seeded world that loses, delays, repeats and crashes: safety, then liveness."""

from __future__ import annotations

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from tests.mesh.simulation import Faults, World
from tests.rounds import rounds


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("keys") / "scheduler.nk")


def run(world: World, jobs: int, faulty_steps: int) -> list[str]:
    """Run with faults for a while, then without until all jobs are over; return the keys."""
    pool = [f"{('alice', 'bob')[n % 2]}-{n}-{(0, 300, 1000)[n % 3]}" for n in range(jobs)]
    for step in range(faulty_steps):
        world.step(pool[: 1 + step * jobs // faulty_steps])
        assert not world.halted, world.halted
        for node in world.nodes.values():
            assert max(node.starts.values(), default=0) <= 1, "an attempt was started twice"
    world.faults = Faults.none()
    for _ in range(400):
        world.step(pool)
        if world.over(pool):
            return pool
    raise AssertionError(f"not over after the faults: {world.replica.status()}")


@pytest.mark.rounds
@pytest.mark.parametrize("seed", range(rounds(24, 600)))
def test_faults_then_progress(signer: Identity, seed: int) -> None:
    world = World(seed, signer)
    keys = run(world, 60, 250)
    assert world.replica.state.core.check() == ""
    assert len(set(world.jobs.values())) == len(keys), "two keys share a job"
    started = [attempt for node in world.nodes.values() for attempt in node.starts]
    assert len(started) == len({key.job for key in started}), "a job ran on two nodes"
    assert not world.halted
