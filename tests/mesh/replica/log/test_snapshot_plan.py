# SPDX-License-Identifier: Apache-2.0
"""The plan of snapshots: when they are due, and that a trimmed log begins at a kept file."""

from stoker.mesh.replica.log.snapshot_plan import SnapshotPlan


def test_one_is_due_after_entries_or_bytes_and_only_one_is_under_way() -> None:
    plan = SnapshotPlan(log_max_bytes=4000, entries_max=3)
    plan.applied(10)
    plan.applied(10)
    assert not plan.due()
    plan.applied(10)
    assert plan.due()
    plan.begin()
    plan.applied(1000)
    assert not plan.due()
    plan.saved(1, full=False)
    assert plan.due()


def test_a_full_log_keeps_what_the_file_before_needs() -> None:
    """Several files are saved while the log is full, before any is recorded or trimmed to."""
    plan = SnapshotPlan(1000, 10, newest=21)
    assert plan.trim(16) == 16
    plan.refused()
    assert plan.saved(28, full=True) == 21
    plan.refused()
    assert plan.saved(31, full=True) == 28
    assert plan.saved(31, full=True) is None, "the same file again is not one before"


def test_only_a_log_that_stays_full_depends_on_its_newest_file() -> None:
    plan = SnapshotPlan(1000, 10, newest=28)
    plan.refused()
    assert plan.saved(31, full=True) == 28
    plan.trimmed(28)
    assert plan.saved(31, full=True) is None, "no append has shown yet whether that helped"
    plan.refused()
    assert plan.saved(31, full=True) == 31


def test_with_no_file_before_the_newest_must_do() -> None:
    plan = SnapshotPlan(1000, 10)
    plan.refused()
    assert plan.saved(5, full=True) == 5


def test_a_trim_that_failed_is_requested_again() -> None:
    plan = SnapshotPlan(1000, 10, newest=28)
    plan.refused()
    assert plan.saved(31, full=True) == 28
    plan.trim_failed()
    assert plan.saved(33, full=True) == 31


def test_a_log_is_never_trimmed_backwards() -> None:
    plan = SnapshotPlan(1000, 10, newest=28)
    plan.refused()
    assert plan.saved(31, full=True) == 28
    assert plan.trim(16) is None
    assert plan.trim(31) == 31
