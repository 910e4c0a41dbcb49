# SPDX-License-Identifier: Apache-2.0
"""An agent that ends knows all that was placed there only once the log refuses jobs for it."""

from __future__ import annotations

import msgspec
import pytest

from stoker.agent.jobs.ordered_end import LEAVES, OrderedEnd
from stoker.scheduler.nouns import NodeReport

REPORT = NodeReport("n1", "boot", 1, 2000, 1)


def test_the_report_refuses_jobs_beside_other_reasons_once_the_end_has_begun() -> None:
    end = OrderedEnd()
    assert end.report(REPORT) is REPORT
    end.begun = True
    assert end.report(REPORT).drain == LEAVES
    full = msgspec.structs.replace(REPORT, drain="the disk is full")
    assert end.report(full).drain == f"the disk is full; {LEAVES}"


@pytest.mark.parametrize(
    "missing", ["", "the answer to the report", "the request", "the answer to the request"]
)
def test_all_is_known_after_three_steps_in_their_order(missing: str) -> None:
    end = OrderedEnd()
    end.greeted(REPORT)
    end.requested()
    end.begun = True
    end.read()  # what was requested before shows nothing
    if missing != "the answer to the report":
        end.greeted(end.report(REPORT))
    if missing != "the request":
        end.requested()
    if missing != "the answer to the request":
        end.read()
    assert end.is_known == (not missing)


def test_an_earlier_report_that_is_answered_late_shows_nothing() -> None:
    end = OrderedEnd()
    end.begun = True
    end.greeted(REPORT)
    end.requested()
    end.read()
    assert not end.is_known
