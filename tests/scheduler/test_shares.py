# SPDX-License-Identifier: Apache-2.0
"""Shares: sums that always agree with the jobs, and forgetting that takes from whoever has most."""

from __future__ import annotations

import random
from collections import Counter

from stoker.scheduler.shares import UserShares


def filled(**users: tuple[int, int]) -> UserShares:
    """Ended jobs by user as (number, bytes of each), submitted by turns."""
    shares, job = UserShares(), 0
    for place in range(max(number for number, _ in users.values())):
        for user, (number, size) in users.items():
            if place < number:
                job += 1
                shares.put(user, job, size, ended=True)
    return shares


def forget(shares: UserShares, jobs_kept: int, bytes_kept: int = 1 << 60) -> Counter[str]:
    """Forget jobs until nothing is in excess; return who lost how many."""
    lost: Counter[str] = Counter()
    while found := shares.excess(jobs_kept, bytes_kept, 16):
        assert len(found) <= 16
        for job in found:
            (user,) = [name for name in shares._of if job in shares.of(name).jobs]
            shares.drop(user, job, shares.of(user).jobs[job])
            lost[user] += 1
    return lost


def test_only_who_has_most_loses() -> None:
    shares = filled(alice=(500, 10), bob=(20, 10), carol=(5, 10))
    assert forget(shares, 100) == {"alice": 425}
    assert (shares.of("bob").ended, shares.of("carol").ended) == (20, 5)


def test_two_floods_are_levelled_and_a_small_user_is_spared() -> None:
    shares = filled(alice=(300, 10), mallory=(200, 10), bob=(40, 10))
    forget(shares, 100)
    ended = {user: shares.of(user).ended for user in ("alice", "mallory", "bob")}
    assert ended == {"alice": 30, "mallory": 30, "bob": 40} or ended["bob"] >= 100 // 3
    assert shares.ended == 100


def test_bytes_are_taken_from_who_has_most_bytes() -> None:
    shares = filled(alice=(10, 1000), bob=(100, 10))
    assert forget(shares, 1000, 5000) == {"alice": 6}
    assert shares.of("bob").ended == 100


def test_the_oldest_of_a_user_go_first() -> None:
    shares = filled(alice=(10, 10))
    assert shares.excess(7, 1 << 60, 16) == [1, 2, 3]
    shares.put("alice", 99, 10, ended=False)
    assert shares.excess(7, 1 << 60, 16) == [1, 2, 3]
    assert shares.excess(10, 100, 16) == []


def test_nobody_falls_below_an_equal_part() -> None:
    chance = random.Random(4)
    for _ in range(50):
        users = {f"u{n}": (chance.randint(1, 80), chance.randint(1, 50)) for n in range(8)}
        shares, kept = filled(**users), chance.randint(8, 200)
        forget(shares, kept)
        for user, (number, _) in users.items():
            assert shares.of(user).ended >= min(number, kept // len(users))


def test_sums_follow_every_change() -> None:
    chance = random.Random(9)
    shares = UserShares()
    live: dict[int, tuple[str, int]] = {}
    ended: dict[int, tuple[str, int]] = {}
    for job in range(1, 2000):
        user, size = chance.choice(("alice", "bob")), chance.randint(0, 99)
        shares.put(user, job, size, ended=False)
        live[job] = (user, size)
        if chance.random() < 0.7:
            over = chance.choice(list(live))
            user, before = live.pop(over)
            shares.end(user, over, size, before)
            ended[over] = (user, size)
        if chance.random() < 0.5:
            some = chance.choice([live, ended])
            if some:
                gone = chance.choice(list(some))
                user, size = some.pop(gone)
                shares.drop(user, gone, size)
        assert shares.ended == len(ended)
        assert shares.ended_bytes == sum(size for _, size in ended.values())
        assert shares.live_bytes == sum(size for _, size in live.values())
        assert shares.of("bob").live == sum(user == "bob" for user, _ in live.values())
