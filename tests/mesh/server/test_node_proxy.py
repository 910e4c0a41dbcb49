# SPDX-License-Identifier: Apache-2.0
"""A reader of output is told whether another attempt may come, and which stream is not there."""

from __future__ import annotations

import pytest

from stoker.mesh.server.node_proxy import _goes_on, _not_spooled
from stoker.mesh.wire import output_spool
from stoker.native.errors import NotFound
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


def test_a_stream_that_was_not_spooled_is_not_said_to_be_the_whole_output() -> None:
    """A job that wrote to one stream alone has that one in the spool."""
    spec = encode_spec(JobSpec(("true",), env={output_spool.VARIABLE: "4096"}))
    job, gone = Job(1, Owner("ann", 1, 1), spec, 1), NotFound("node n2 is given up")
    said = _not_spooled(job, "err", gone)
    assert said.endswith("Nothing of its stderr had reached the spool of the cluster")
    assert "Nothing of its stdout" in _not_spooled(job, "out", gone)
