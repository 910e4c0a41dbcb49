# SPDX-License-Identifier: Apache-2.0
"""An outage of the log blocks its scheduler after a bound, and ends when it appends no more."""

from __future__ import annotations

from stoker.mesh.log.log_outage import BLOCKED_NS, FULL_NS, LogOutage


def test_an_outage_blocks_after_its_bound_and_ends_with_leadership() -> None:
    outage = LogOutage(1)
    outage.failed(100)
    assert outage.is_down and not outage.is_blocked(100 + BLOCKED_NS - 1)
    assert outage.is_blocked(100 + BLOCKED_NS)
    outage.left()
    assert not outage.is_down and not outage.is_blocked(100 + BLOCKED_NS)
    assert outage.may_try(100)


def test_a_full_log_is_not_full_for_a_scheduler_that_appends_no_more() -> None:
    outage = LogOutage(1)
    outage.filled("no room", 100)
    assert outage.refusal(100) == "" and outage.refusal(100 + FULL_NS) == "no room"
    outage.left()
    assert outage.full == "" and outage.refusal(100 + FULL_NS) == ""
