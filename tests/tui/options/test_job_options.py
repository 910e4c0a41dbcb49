# SPDX-License-Identifier: Apache-2.0
"""The request that the flags of `run` and `submit` make."""

from __future__ import annotations

from typing import Any

import click
import msgspec
from click.testing import CliRunner

from stoker.mesh.wire.schema import JobRequest
from stoker.tui.options import job_options


def request(*words: str) -> JobRequest:
    """The request of a command with these flags, as the scheduler decodes it."""
    made: list[JobRequest] = []

    @click.command()
    @job_options.job_options
    def command(**fields: Any) -> None:
        fields["stdin"] = False  # the verb decides it when the flag says nothing
        made.append(job_options.request(("true",), **fields))

    answer = CliRunner().invoke(command, words, catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return msgspec.json.decode(msgspec.json.encode(made[0]), type=JobRequest)


def test_no_flag_has_a_default_that_the_scheduler_refuses() -> None:
    made = request()
    plain = JobRequest(argv=("true",), cwd=made.cwd, idempotency_key=made.idempotency_key)
    assert made == plain
