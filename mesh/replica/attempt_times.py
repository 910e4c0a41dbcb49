# SPDX-License-Identifier: Apache-2.0
"""The times of a job's attempt: when it was placed, began and ended, as entries and nodes say.

Pure. Owns which of the two is believed: the time that a node reports, else that of the entry.
"""

from __future__ import annotations

from stoker.scheduler.book import Job
from stoker.scheduler.nouns import ENDED, Outcome


def note_start(record: Job, outcome: Outcome | None) -> None:
    """Record when the attempt began, of which a short one is only reported with its end."""
    if outcome is not None and record.started_ns is None:
        record.started_ns = outcome.started_ns


def note(record: Job, t_ns: int) -> None:
    """Record the time of a change to the state that the record has."""
    if record.state == "starting":
        record.placed_ns = t_ns
    elif record.state == "running":
        record.started_ns = t_ns
    elif record.state in ENDED:
        record.ended_ns = t_ns
