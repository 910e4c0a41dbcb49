# SPDX-License-Identifier: Apache-2.0
"""A reader of output waits for another attempt only if one may come."""

from __future__ import annotations

import pytest

from stoker.mesh.server.node_proxy import _goes_on
from stoker.scheduler.book import Job, encode_spec
from stoker.scheduler.nouns import JobSpec, JobState, Owner


@pytest.mark.parametrize(
    ("state", "retries", "goes_on"),
    [
        ("pending", 0, True),  # its node gave it back
        ("starting", 0, False),
        ("running", 0, False),
        ("running", 1, True),
        ("failed", 1, False),
    ],
)
def test_another_attempt_may_follow_a_job_that_waits_again(
    state: JobState, retries: int, goes_on: bool
) -> None:
    spec = encode_spec(JobSpec(("true",), retries=retries))
    job = Job(1, Owner("ann", 1, 1), spec, 1, state=state, attempt=2)
    assert _goes_on(job, 2) == goes_on
    assert _goes_on(job, 1)
