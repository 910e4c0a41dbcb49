# SPDX-License-Identifier: Apache-2.0
"""The modelled watchdog decides as the shipped one, on leases drawn by seed."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from stoker.agent.sim.watchdog_model import (
    LOOK_MOST_NS,
    LOOK_NS,
    MOST_NS,
    LeaseModel,
    decide,
    looks_until_expiry,
)

ROOT = Path(__file__).parents[3]
ACTIONS = ("nothing", "freeze", "thaw")


@pytest.fixture(scope="module")
def watchdog(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if not shutil.which("cc"):
        pytest.skip("not installed: cc")
    made = tmp_path_factory.mktemp("lease") / "lease.so"
    source = ROOT / "native" / "runner" / "watchdog" / "lease.c"
    argv = ["cc", "-std=gnu11", "-shared", "-fPIC", f"-I{ROOT / 'native'}", "-o", str(made)]
    subprocess.run([*argv, str(source)], check=True)
    return ctypes.CDLL(str(made))


def shipped(watchdog: ctypes.CDLL, lease: LeaseModel, now_ns: int) -> str:
    fields = (ctypes.c_uint64 * 24)()
    fields[4], fields[5] = lease.expiry_ns, lease.expiry_ns ^ ((1 << 64) - 1)
    fields[6], fields[7] = lease.thaw_epoch, lease.thaw_until_ns
    fields[12], fields[13] = lease.freeze_epoch, lease.frozen_since_ns
    action: int = watchdog.sk_runner_lease_decide(
        ctypes.byref(fields), ctypes.c_uint64(now_ns), ctypes.c_uint64(0)
    )
    return ACTIONS[action]


def test_it_decides_as_the_shipped_watchdog(watchdog: ctypes.CDLL) -> None:
    chance, seen = random.Random(3), set[str]()
    for _ in range(5000):
        lease = LeaseModel(
            chance.choice((0, 90, 100, 101, 110, 100 + MOST_NS, 101 + MOST_NS)),
            chance.choice((0, 1, 2)),
            chance.choice((0, 100, 101)),
            chance.choice((0, 1, 2)),
            chance.choice((0, 50)),
        )
        action = decide(lease, 100)
        assert action == shipped(watchdog, lease, 100), lease
        seen.add(action)
    assert seen == set(ACTIONS)


def test_a_freeze_is_thawed_only_by_name_and_with_a_lease() -> None:
    lease = LeaseModel(expiry_ns=100)
    assert decide(lease, 99) == "nothing"
    assert decide(lease, 100) == "freeze"
    lease.freeze_now(100)
    lease.extend(200)
    lease.extend(150)
    assert lease.frozen and decide(lease, 120) == "nothing"
    lease.thaw(1, 200)
    assert decide(lease, 120) == "thaw" and decide(lease, 200) == "nothing"
    lease.extend(300)
    assert decide(lease, 200) == "nothing"  # another lease needs another thaw


def test_only_looks_that_find_nothing_to_do_are_left_out() -> None:
    chance, left_out = random.Random(4), 0
    for _ in range(300):
        now, step = chance.randrange(1, 10**12), chance.randint(LOOK_NS - 20_000, LOOK_MOST_NS)
        lease = LeaseModel(expiry_ns=now + chance.randint(-LOOK_NS, MOST_NS))
        looks = looks_until_expiry(lease, now)
        times = [now + number * step for number in range(1, looks)]
        assert looks >= 1 and all(decide(lease, at) == "nothing" for at in times), lease
        left_out += len(times)
    assert left_out > 3000
    frozen = LeaseModel(expiry_ns=now + MOST_NS, frozen_since_ns=1)
    assert looks_until_expiry(frozen, now) == 1  # its thaw may come at any moment
