# SPDX-License-Identifier: Apache-2.0
"""The raise of the feature level among replicas of different builds: who lags, and who returns."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.feature_level import BUILD, FORMATS, FeatureRange
from stoker.mesh.replica import events
from stoker.mesh.replica.works.work import AdminApplied
from stoker.native.errors import Refused
from tests.mesh.replica_cluster import Cluster, Disk

OLD, NEW, NEWEST = FeatureRange(1, 1), BUILD, BUILD.newest
SERVERS = {1: "first", 2: "second", 3: "third"}


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    return [identity.create(tmp_path_factory.mktemp("keys") / "s.nk") for _ in range(3)]


@pytest.fixture
def cluster(signers: list[Identity]) -> Cluster:
    """Three replicas that all know the newer level, in a cluster of the older one."""
    made = Cluster(signers, level=1)
    made.settle()
    return made


def boot(cluster: Cluster, number: int, supports: FeatureRange) -> None:
    """Start a replica anew, of the build that supports these levels."""
    cluster.kill(number)
    cluster.supports[number] = supports
    cluster.boot(number)


def upgrade(cluster: Cluster) -> Any:
    """Ask whoever leads for the newest level, and return the answer."""
    leader, token = cluster.settle(), ("upgrade", len(cluster.replies))
    cluster.feed(leader, events.Upgrade(token, SERVERS))
    return cluster.replies[token]


def levels(cluster: Cluster) -> dict[int, int]:
    return {number: each.state.level for number, each in cluster.replicas.items()}


def raised(cluster: Cluster) -> int:
    """Raise the level; return the number of a follower."""
    assert upgrade(cluster) == AdminApplied(True)
    leader = cluster.settle()
    return next(number for number in cluster.replicas if number != leader)


def test_the_level_rises_once_all_support_it(cluster: Cluster) -> None:
    assert levels(cluster) == dict.fromkeys(SERVERS, 1)
    raised(cluster)
    assert levels(cluster) == dict.fromkeys(SERVERS, NEWEST)
    config = cluster.replicas[1].state.config
    assert config is not None and config.formats == FORMATS[NEWEST]
    assert len(cluster.digests()) == 1
    assert upgrade(cluster) == AdminApplied(False), "it may be asked for again"


def test_one_that_lags_is_named_whether_or_not_it_leads(cluster: Cluster) -> None:
    for number, server in SERVERS.items():
        boot(cluster, number, OLD)
        refused = upgrade(cluster)
        assert isinstance(refused, Refused)
        lacks = f"{server} supports 1, not {NEWEST}: upgrade it first"
        assert refused.message == f"the feature level stays: {lacks}"
        boot(cluster, number, NEW)
    leader = cluster.settle()
    cluster.kill(leader)  # the word of one that was of the newer build is not kept for ever
    refused = upgrade(cluster)
    assert (
        isinstance(refused, Refused)
        and f"{SERVERS[leader]} did not answer for 2 s: start it" in refused.message
    )
    assert set(levels(cluster).values()) == {1}


def test_builds_that_all_lack_it_have_nothing_to_change(signers: list[Identity]) -> None:
    cluster = Cluster(signers, level=1)
    for number in SERVERS:
        boot(cluster, number, OLD)
    assert upgrade(cluster) == AdminApplied(False)
    assert set(levels(cluster).values()) == {1}


def before(disk: Disk) -> tuple[Any, ...]:
    return tuple(disk.entries), disk.promised, disk.snapshot, disk.floor


def test_an_older_build_that_returns_after_the_raise_halts_and_changes_nothing(
    cluster: Cluster,
) -> None:
    back = raised(cluster)
    disk = cluster.disks[back]
    boot(cluster, back, OLD)
    found = before(disk)
    cluster.pass_time(5)
    assert (
        cluster.halted[back].startswith("log entry ")
        and "this scheduler supports 1:" in (cluster.halted[back])
    )
    assert cluster.replicas[back].status() == f"blocked: halted: {cluster.halted[back]}"
    assert before(disk) == found
    others = [number for number in SERVERS if number != back]
    assert {cluster.replicas[number].state.level for number in others} == {NEWEST}
    boot(cluster, back, NEW)
    cluster.settle()
    assert len(cluster.digests()) == 1 and levels(cluster)[back] == NEWEST


def test_an_older_build_holds_no_entry_beyond_its_range(cluster: Cluster) -> None:
    """It was of the newer build when the level was raised, and has not read that yet."""
    leader, back = away(cluster)
    assert upgrade_at(cluster, leader) == AdminApplied(True)
    boot(cluster, back, OLD)
    returns(cluster, back)
    replica = cluster.replicas[back]
    assert replica.role == "halted" and replica.state.level == 1
    assert replica.tail.end.index == cluster.replicas[leader].state.index - 1
    assert cluster.disks[back].entries[-1][0] <= replica.tail.end.index


def test_an_older_build_pledges_to_nobody_whose_state_it_cannot_follow(cluster: Cluster) -> None:
    """The log does not answer it, so that nobody but the leader tells of the raise."""
    leader, back = away(cluster)
    assert upgrade_at(cluster, leader) == AdminApplied(True)
    boot(cluster, back, OLD)
    cluster.cut.clear()
    cluster.pass_time(4)
    replica = cluster.replicas[back]
    assert replica.counters["level_beyond"] > 0 and "campaigns" not in replica.counters
    said = f"blocked: the cluster has feature level {NEWEST}, and this scheduler supports 1:"
    assert replica.status().startswith(said)
    (other,) = {*SERVERS} - {leader, back}
    cluster.kill(other)
    cluster.pass_time(4)
    assert cluster.replicas[leader].role != "leading", "its pledge would have been a majority's"


def test_a_snapshot_beyond_the_range_is_installed_nowhere(signers: list[Identity]) -> None:
    cluster = Cluster(signers, level=1, snapshot_entries=10)
    leader, back = away(cluster)
    assert upgrade_at(cluster, leader) == AdminApplied(True)
    for number in range(60):
        cluster.submit(leader, ("job", number))
    cluster.pass_time(1)
    assert min(cluster.log.entries) > cluster.replicas[back].state.index + 1
    for number in {*SERVERS} - {back}:  # they hold what is on their disks, and no more
        boot(cluster, number, NEW)
    boot(cluster, back, OLD)
    found = cluster.disks[back].snapshot
    returns(cluster, back)
    assert cluster.disks[back].snapshot == found
    assert cluster.replicas[back].state.level == 1
    assert f"feature level {NEWEST}" in cluster.replicas[back].status()


def away(cluster: Cluster) -> tuple[int, int]:
    """Cut a follower off from all; return the leader and it. Its pledge counts a little longer."""
    leader = cluster.settle()
    back = next(number for number in SERVERS if number != leader)
    cluster.cut.add(back)
    cluster.log_down.add(back)
    return leader, back


def returns(cluster: Cluster, back: int) -> None:
    cluster.cut.discard(back)
    cluster.log_down.discard(back)
    cluster.pass_time(8)


def upgrade_at(cluster: Cluster, leader: int) -> Any:
    """Ask at once."""
    cluster.feed(leader, events.Upgrade("at once", SERVERS))
    return cluster.replies["at once"]
