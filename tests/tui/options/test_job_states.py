# SPDX-License-Identifier: Apache-2.0
"""States are typed as stoker or as squeue calls them, one or several."""

from __future__ import annotations

import click
import pytest

from stoker.scheduler.nouns import ENDED
from stoker.tui.options.job_states import JOB_STATES, OF_SLURM, JobStates


@pytest.mark.parametrize(
    ("typed", "states"),
    [
        ("running", ("running",)),
        ("PD,R", ("pending", "running")),
        ("failed, lost", ("failed", "lost")),
        ("Completed", ("succeeded",)),
    ],
)
def test_words_codes_and_lists(typed: str, states: tuple[str, ...]) -> None:
    assert JobStates().convert(typed, None, None) == states


@pytest.mark.parametrize("typed", ["", "run", "running,", "running;failed"])
def test_what_is_no_state_is_refused_with_those_there_are(typed: str) -> None:
    with pytest.raises(click.BadParameter, match="is none of pending, starting, running"):
        JobStates().convert(typed, None, None)


def test_every_state_is_known_and_no_code_stands_for_another_word() -> None:
    assert set(OF_SLURM.values()) <= set(JOB_STATES) and set(JOB_STATES) >= ENDED
    assert not set(OF_SLURM) & set(JOB_STATES)


def test_a_list_is_continued_at_its_last_part() -> None:
    offered = JobStates().shell_complete(None, None, "failed,ru")
    assert [item.value for item in offered] == ["failed,running"]
