# SPDX-License-Identifier: Apache-2.0
"""A snapshot that is encoded once for all gives what it gives when each encodes it."""

from __future__ import annotations

from msgspec.structs import replace

from stoker.mesh.replica import snapshots
from stoker.mesh.sim.state_digests import KEPT, StateDigests
from tests.agent.sim.quiet_world import leader_of, quiet_world


def test_digests_are_those_of_the_snapshot_itself() -> None:
    snapshot = leader_of(quiet_world()).replica.state.snapshot()
    digests = StateDigests()
    others = [replace(snapshot, seq=snapshot.seq + 1), replace(snapshot, core=snapshot.core[:-1])]
    others += [replace(snapshot, index=snapshot.index + n) for n in range(1, KEPT + 2)]
    for each in (snapshot, *others, snapshot):
        assert digests.encoded(each) == snapshots.encode(each)
        assert digests.agreement(each) == snapshots.agreement(each)


def test_equal_snapshots_are_encoded_once() -> None:
    snapshot = leader_of(quiet_world()).replica.state.snapshot()
    digests = StateDigests()
    assert digests.encoded(snapshot) is digests.encoded(replace(snapshot))
