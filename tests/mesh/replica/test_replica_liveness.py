# SPDX-License-Identifier: Apache-2.0
"""Several replicas go on after weaknesses of the log that leave nobody in the wrong."""

from __future__ import annotations

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.entry import unseal
from stoker.scheduler.book import Job
from tests.mesh.replica_cluster import Cluster


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    return [identity.create(tmp_path_factory.mktemp("keys") / "s.nk") for _ in range(3)]


@pytest.fixture
def cluster(signers: list[Identity]) -> Cluster:
    made = Cluster(signers)
    made.settle()
    return made


def test_a_number_that_cannot_be_read_is_passed_over(cluster: Cluster) -> None:
    leader = cluster.settle()
    cluster.log.tear()
    cluster.submit(leader, "job")
    cluster.settle()
    assert isinstance(cluster.replies.get("job"), Job)
    assert len(cluster.digests()) == 1 and cluster.halted == {}


def test_an_acknowledged_entry_that_nobody_else_has_is_appended_again(cluster: Cluster) -> None:
    leader = cluster.settle()
    others = set(cluster.replicas) - {leader}
    cluster.log_down = others
    cluster.submit(leader, "job")
    assert "job" not in cluster.replies
    del cluster.log.entries[cluster.log.last]  # a deposed stream leader had acknowledged it
    cluster.log.last -= 1
    cluster.log_down = set()
    cluster.pass_time(6)
    assert isinstance(cluster.replies.get("job"), Job)
    assert cluster.settle() == leader and len(cluster.digests()) == 1


def test_a_log_that_lost_all_entries_is_written_again(cluster: Cluster) -> None:
    leader = cluster.settle()
    for number in range(3):
        cluster.submit(leader, number)
    cluster.pass_time(1)
    cluster.kill(leader)
    cluster.log.entries.clear()
    cluster.log.last = 0
    for replica in cluster.replicas.values():  # none knows a place in the log any more
        replica._tail.forget_places()
    second = cluster.settle()
    assert isinstance(cluster.submit(second, "job"), Job)
    cluster.settle()
    assert cluster.log.last > 4 and len(cluster.digests()) == 1


def test_a_later_leader_founds_the_cluster_again_if_no_majority_held_the_first(
    signers: list[Identity],
) -> None:
    """The founding entry of a dead candidate may land late, before that of the elected one."""
    first, again = Cluster(signers), Cluster(signers)
    first.settle()
    for number, disk in again.disks.items():
        disk.promised = first.replicas[1].state.term
        again.boot(number)
    again.settle()
    late, elected = (each.log.read(1)[0][1] for each in (first, again))
    tail = Cluster(signers).replicas[3]._tail

    def offer(seq: int, data: bytes) -> str:
        return tail.offer(seq, data, unseal(seq, data))

    assert offer(1, late) == "" and tail.end.index == 1
    assert offer(2, elected) == "" and tail.end.index == 1
    assert tail.end.term == again.replicas[1].state.term > first.replicas[1].state.term
    assert offer(3, late) == "entry_term"
