# SPDX-License-Identifier: Apache-2.0
"""The order fair: within one queue no user's flood keeps another's job from being next."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from stoker.scheduler import records as rec
from stoker.scheduler.core import BATCH_REQUESTS_MAX, Core, Limits
from stoker.scheduler.policies import Order
from stoker.scheduler.reasons import Reason as R
from tests.scheduler.oracle_nouns import SECOND
from tests.scheduler.test_core_order import Pair

LIMITS = Limits(
    nodes=4, devices=16, jobs=12_000, finished=8, tasks=64, node_tasks=64, keys=4, queues=8
)
SUCCEEDED = rec.STATE_CODES["succeeded"]
FLOODING, OTHER, THIRD = 1, 2, 3
DEVICES = 8


class Cluster:
    """One node of eight devices, and a queue with the order fair."""

    def __init__(self, order: Order = Order.FAIR) -> None:
        self.core, self.now = Core(LIMITS), SECOND
        self.running: dict[int, int] = {}
        """The user of each job that runs."""
        self.users: dict[int, int] = {}
        self.step(rec.Term(1, 1), rec.NodeUp(1, 1, 1, 64_000, 1 << 40, DEVICES))
        self.step(*(rec.DeviceSet(1, index) for index in range(DEVICES)))
        self.step(rec.QueueSet(0, order=order))

    def step(self, *requests: rec.Request) -> list[int]:
        """Decide a second later; the jobs that were placed, in their order."""
        self.now += SECOND
        proposal = self.core.propose(list(requests), self.now, 0, measure=False)
        assert not proposal.rejected
        self.core.apply(proposal.commands, self.now)
        decided = rec.unpack_commands(proposal.commands)
        placed = [each.job for each in decided if isinstance(each, rec.Place)]
        self.running |= {job: self.users[job] for job in placed if job in self.users}
        return placed

    def submit(self, user: int, jobs: int = 1, **request: int) -> list[int]:
        """Submit jobs for one device each, if not told otherwise; those that were placed."""
        placed: list[int] = []
        for at in range(0, jobs, BATCH_REQUESTS_MAX):
            part = min(jobs - at, BATCH_REQUESTS_MAX)
            first = len(self.users) + 1
            self.users |= {first + n: user for n in range(part)}
            job = rec.Submit(user, **{"gpu_milli": 1000} | request)
            placed += self.step(*[job] * part)
        return placed

    def end(self, job: int) -> list[int]:
        """End a job; those that are placed then."""
        del self.running[job]
        return self.step(rec.TaskOutcome(job, 1, 1, SUCCEEDED))

    def holds(self, user: int) -> int:
        return Counter(self.running.values())[user]


def test_behind_a_flood_another_users_job_is_next() -> None:
    cluster = Cluster()
    first = cluster.submit(FLOODING, 10_000)
    assert len(first) == DEVICES
    assert cluster.submit(OTHER) == []
    late = len(cluster.users)
    assert cluster.end(first[0]) == [late]
    assert cluster.core.check() == ""


def test_without_the_order_it_waits_for_the_whole_flood() -> None:
    cluster = Cluster(Order.BACKFILL)
    first = cluster.submit(FLOODING, 100)
    cluster.submit(OTHER)
    assert cluster.end(first[0]) == [DEVICES + 1]


@pytest.mark.parametrize("seed", range(3))
def test_users_who_wait_hold_as_much_as_each_other(seed: int) -> None:
    """Nobody who waits holds two devices less than a user of whom a job was just placed."""
    random, cluster = Random(seed), Cluster()
    for user in (FLOODING, OTHER, THIRD):
        cluster.submit(user, 60)
    for _ in range(100):
        placed = cluster.end(random.choice(list(cluster.running)))
        for user in {cluster.users[job] for job in placed}:
            waits = set(cluster.users.values()) - {user}
            assert all(cluster.holds(user) - cluster.holds(other) <= 1 for other in waits)
    assert cluster.core.check() == ""


def test_what_a_user_holds_is_its_largest_share() -> None:
    """Half of all CPUs count for more than three of eight devices."""
    cluster = Cluster()
    cluster.submit(FLOODING, gpu_milli=0, cpu_milli=32_000)
    cluster.submit(OTHER, 3)
    full = cluster.submit(THIRD, DEVICES - 3)
    cluster.submit(FLOODING)
    cluster.submit(OTHER)
    assert cluster.end(full[0]) == [len(cluster.users)]


def test_with_room_for_one_users_go_by_their_last_starts() -> None:
    """Whenever the one job ends, nobody holds anything: it is the turn of who waited longest."""
    cluster = Cluster()
    placed = cluster.submit(FLOODING, 30, gpu_milli=DEVICES * 1000)
    cluster.submit(OTHER, 4, gpu_milli=DEVICES * 1000)
    cluster.submit(THIRD, 4, gpu_milli=DEVICES * 1000)
    served = []
    for _ in range(12):
        placed = cluster.end(placed[0])
        served += [cluster.users[job] for job in placed]
        cluster.core = Core.restore(cluster.core.snapshot())
    assert served == [OTHER, THIRD, FLOODING] * 4


def test_who_has_no_job_left_comes_back_as_new() -> None:
    cluster = Cluster()
    placed = cluster.submit(FLOODING, 30, gpu_milli=DEVICES * 1000)
    cluster.submit(OTHER, gpu_milli=DEVICES * 1000)
    cluster.submit(THIRD, 2, gpu_milli=DEVICES * 1000)
    placed = cluster.end(placed[0])
    placed = cluster.end(placed[0])
    assert [cluster.users[job] for job in placed] == [THIRD]
    cluster.submit(OTHER, gpu_milli=DEVICES * 1000)
    assert cluster.end(placed[0]) == [len(cluster.users)]


def test_a_priority_goes_before_shares() -> None:
    cluster = Cluster()
    first = cluster.submit(FLOODING, DEVICES)
    cluster.submit(FLOODING, priority=1)
    urgent = len(cluster.users)
    cluster.submit(OTHER)
    assert cluster.end(first[0]) == [urgent]


def test_what_cannot_start_as_things_are_holds_up_nobody() -> None:
    cluster = Cluster()
    first = cluster.submit(FLOODING, DEVICES)
    cluster.submit(OTHER, gpu_milli=8000)
    cluster.submit(OTHER)
    after = len(cluster.users)
    cluster.step(rec.DeviceSet(1, DEVICES - 1, available=False))
    assert cluster.end(first[0]) == [after]


def test_a_snapshot_leaves_the_order_as_it_is() -> None:
    cluster = Cluster()
    first = cluster.submit(FLOODING, 50)
    cluster.submit(OTHER, 20)
    cluster.submit(THIRD, 20, priority=2)
    restored = Core.restore(cluster.core.snapshot())
    assert restored.check() == "" and restored.digest() == cluster.core.digest()
    end = [rec.TaskOutcome(job, 1, 1, SUCCEEDED) for job in first]
    ours, theirs = (
        core.propose(end, cluster.now, 0, measure=False) for core in (cluster.core, restored)
    )
    assert ours.commands == theirs.commands


def test_the_reason_of_a_wait_names_who_is_next() -> None:
    cluster = Cluster()
    cluster.submit(FLOODING, DEVICES + 1)
    cluster.submit(OTHER)
    lines = {line.reason: line for line in cluster.core.explain(DEVICES + 1)}
    said = lines[R.USER_TURN]
    assert (said.job, said.asked, said.have) == (DEVICES + 2, 1000, 0)
    assert R.USER_TURN not in {line.reason for line in cluster.core.explain(DEVICES + 2)}


@pytest.mark.parametrize("seed", range(4))
def test_for_one_user_it_is_backfill(seed: int) -> None:
    decided = []
    for order in (Order.BACKFILL, Order.FAIR):
        pair = Pair(Random(seed))
        pair.step([rec.Term(1, 1)])
        pair.step([*pair.nodes(), rec.QueueSet(0, order=order)])
        commands: list[rec.Command] = []
        for step in range(40):
            pair.now += SECOND
            queued = [pair.submit()._replace(queue=0) for _ in range(step % 3)]
            commands += pair.step([*pair.ends(), *queued], step)
        decided.append(commands)
    assert decided[0] == decided[1]


def test_a_queue_takes_the_order_with_its_jobs_unless_they_are_many() -> None:
    cluster = Cluster(Order.BACKFILL)
    first = cluster.submit(FLOODING, 1000)
    cluster.submit(OTHER)
    late = len(cluster.users)
    cluster.step(rec.QueueSet(0, order=Order.FAIR))
    assert cluster.core.check() == ""
    assert cluster.end(first[0]) == [late]
    cluster.submit(FLOODING, 100)
    back = [rec.QueueSet(0, order=Order.BACKFILL)]
    (rejected,) = cluster.core.propose(back, cluster.now, 0, measure=False).rejected
    assert rejected.reason == R.QUEUE_IN_USE
