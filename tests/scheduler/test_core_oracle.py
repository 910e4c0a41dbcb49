# SPDX-License-Identifier: Apache-2.0
"""The core against the dumb oracle: same proposals, same effects, same state, at every step."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.scheduler.core import Limits
from stoker.scheduler.reasons import Reason as R
from tests.scheduler import streams
from tests.scheduler.pair import run

REACHED = {
    *(R.UNKNOWN_NODE, R.UNKNOWN_JOB, R.NODES_FULL, R.DEVICES_FULL, R.JOBS_FULL, R.TASKS_FULL),
    *(R.NODE_NOT_UP, R.STALE_TERM, R.STALE_INCARNATION, R.UNCHANGED, R.NODE_BUSY),
    *(R.BAD_DEVICE_INDEX, R.CAPACITY_IN_USE, R.DUPLICATE, R.KEY_REUSED, R.BAD_PRIORITY),
    *(R.BAD_GPU_MILLI, R.BAD_TASKS, R.TOO_MANY_DEVICES),
    *(R.NOT_PENDING, R.WRONG_ATTEMPT, R.STALE_ATTEMPT, R.ALREADY_ENDED, R.ALREADY_STOPPING),
    *(R.DUPLICATE_OUTCOME, R.NOT_OWNER, R.DEVICE_UNAVAILABLE, R.DEVICE_FULL, R.CPU_FULL),
    *(R.MEMORY_FULL, R.NODE_FULL, R.BAD_SHARES, R.NOT_ENDED, R.BAD_CAPACITY),
    *(R.NODE_REBOOTED, R.NODE_EVICTED, R.CANCEL_REQUESTED, R.RETENTION),
    *(R.FORGET_REQUESTED, R.PEER_ENDED, R.REPORTED),
    *(R.NODE_LABELS_FULL, R.UNKNOWN_LABEL, R.BAD_RESERVATION, R.NODE_RESERVED),
    *(R.UNKNOWN_QUEUE, R.QUEUES_FULL, R.QUEUE_NOT_LEAF, R.QUEUE_IN_USE, R.QUEUE_CYCLE),
    *(R.BAD_WEIGHT, R.BAD_ORDER, R.BAD_PLACEMENT, R.BAD_QUOTA, R.OVER_LIMIT, R.BAD_OPTIONS),
    *(R.BAD_RETRIES, R.BAD_AFTER, R.NOT_RUNNING, R.NOT_PREEMPTIBLE, R.RUNS_TOO_SHORT),
    *(R.STALE_USAGE, R.WRONG_MODEL, R.LABEL_MISSING, R.LABEL_AVOIDED, R.NOT_TOLERATED),
    *(R.REPELLED, R.NOT_ATTRACTED, R.DEVICE_MEMORY_FULL, R.LINK_BROKEN, R.HELD),
    *(R.BAD_DEVICE_KIND, R.WRONG_KIND, R.VENDORS_MIXED, R.BAD_CONDITION, R.CONDITION_NOT_MET),
    *(R.GANG_SPREAD, R.GANG_PACKED, R.NO_NODE_HAS_MODEL, R.PREEMPTED, R.RETRIED, R.RECLAIMED),
    *(R.NOT_READY, R.ALREADY_RELEASED, R.LEVEL_SPLIT, R.MOVED),
}
"""Reasons that random streams must reach: a stream that misses one tests less than it
seems to. Those that need dozens of one thing have golden scripts (full.txt)."""

PROPOSED = {
    *(R.NOT_CUSTOM, R.AS_PREFERRED, R.AFTER_FAILED, R.PACKED_SHARE, R.OPENED_DEVICE),
    *(R.FREE_DEVICES, R.LEAST_BUSY, R.SUBMITTED, R.PLACED, R.LEVEL_SHORT),
}


def test_commands_from_anywhere_agree_with_the_oracle_and_reach_every_reason() -> None:
    reasons: set[int] = set()
    for seed in range(15):
        pair = run(Random(seed), 900, streams.SMALL, decides=False)
        pair.replay()
        reasons |= pair.reasons
    assert set() == REACHED - reasons


def test_proposals_agree_with_the_oracle() -> None:
    reasons: set[int] = set()
    for seed in range(4):
        pair = run(Random(seed), 500, streams.SMALL, decides=True)
        pair.replay()
        reasons |= pair.reasons
    assert set() == PROPOSED - reasons


@settings(max_examples=40)
@given(st.integers(0, 1 << 32), st.integers(5, 60), st.booleans())
def test_short_streams_agree_with_the_oracle(seed: int, steps: int, decides: bool) -> None:
    run(Random(seed), steps, streams.SMALL, decides=decides).replay()


@settings(max_examples=15)
@given(st.integers(0, 1 << 32), st.booleans())
def test_streams_under_wide_limits_agree_with_the_oracle(seed: int, decides: bool) -> None:
    limits = Limits(
        nodes=70, devices=400, jobs=300, finished=200, tasks=300, node_tasks=50, keys=99, queues=20
    )
    run(Random(seed), 60, limits, decides=decides).replay()
