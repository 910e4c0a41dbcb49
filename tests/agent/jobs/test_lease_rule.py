# SPDX-License-Identifier: Apache-2.0
"""A node starts and thaws only as its lease allows, step by step."""

from __future__ import annotations

from stoker.agent.jobs.lease_judge import Freeze
from stoker.agent.jobs.lease_rule import LeaseRule


def test_nothing_starts_before_the_first_lease_or_after_its_end() -> None:
    rule = LeaseRule()
    rule.read(90)
    assert not rule.may_start(100)
    rule.renewed(200, None, 100)
    assert not rule.may_start(100) and rule.may_start(100, requested_ns=100)
    rule.read(100)
    assert [rule.may_start(now_ns) for now_ns in (100, 199, 200)] == [True, True, False]


def test_a_lease_after_a_lapse_wants_the_desired_state_again() -> None:
    rule = LeaseRule()
    rule.renewed(200, None, 100)
    assert rule.must_read
    rule.read(110)
    rule.renewed(300, None, 199)
    assert not rule.must_read
    rule.renewed(400, None, 300)
    assert rule.must_read


def test_what_was_requested_before_a_lapse_starts_nothing() -> None:
    """The node may have been given up in between, whether anybody froze its jobs or not."""
    rule = LeaseRule()
    rule.renewed(200, None, 100)
    rule.read(110)
    assert rule.may_start(150)
    rule.renewed(400, None, 250)
    assert not rule.may_start(260) and not rule.may_start(260, requested_ns=240)
    assert rule.may_start(260, requested_ns=255)


def test_a_freeze_is_undone_after_a_read_that_began_after_it() -> None:
    rule = LeaseRule()
    rule.renewed(200, None, 100)
    rule.read(110)
    rule.renewed(250, Freeze(4, 120), 130)
    assert rule.thaw(130) is None and not rule.may_start(130)
    rule.read(120)
    assert rule.thaw(140) is None
    rule.read(121)
    assert rule.thaw(140) == (4, 250) and rule.may_start(140)
    assert rule.thaw(250) is None


def test_a_read_counts_for_no_later_lease() -> None:
    rule = LeaseRule()
    rule.renewed(200, Freeze(4, 50), 100)
    rule.read(110)
    rule.renewed(300, Freeze(4, 50), 200)
    assert rule.thaw(210) is None
    rule.read(205)
    assert rule.thaw(210) == (4, 300)


def test_jobs_that_run_need_no_thaw() -> None:
    rule = LeaseRule()
    rule.renewed(200, None, 100)
    rule.read(110)
    assert rule.thaw(120) is None


def test_starts_of_a_partial_answer_past_the_freeze_need_no_whole_read() -> None:
    rule = LeaseRule()
    rule.renewed(200, None, 100)
    rule.renewed(250, Freeze(1, 120), 130)
    assert not rule.may_start(140)
    assert not rule.may_start(140, requested_ns=120)
    assert rule.may_start(140, requested_ns=121)
    assert not rule.may_start(250, requested_ns=121)
    assert rule.thaw(140) is None
