# SPDX-License-Identifier: Apache-2.0
"""Every reason to wait has a remedy, and nothing else has one."""

from __future__ import annotations

from stoker.scheduler.effects import Explained
from stoker.scheduler.reasons import Reason
from stoker.scheduler.remedies import REMEDIES, Remedy

FACTS = {
    Reason.PREFERENCES_MET,
    Reason.READY, Reason.PLACED_ON, Reason.WAITED, Reason.OBSERVED, Reason.ENDED,
    Reason.DECIDED_IN, Reason.EXPECTED_START,
}  # fmt: skip
"""Told of a job, but nothing to remedy."""


def test_every_reason_to_wait_has_a_remedy() -> None:
    waits = {reason for reason in Reason if 300 <= reason < Reason.OUTER} - FACTS
    assert waits | {Reason.AFTER_FAILED} == set(REMEDIES)
    assert all(len(set(remedies)) == len(remedies) > 0 for remedies in REMEDIES.values())


def test_every_remedy_is_one_for_something() -> None:
    assert {remedy for remedies in REMEDIES.values() for remedy in remedies} == set(Remedy)


def test_a_line_knows_its_remedies() -> None:
    assert Explained(Reason.NO_NODES, 0, 0, 0, 0, 0).remedies == (Remedy.ADD_NODES,)
    assert Explained(Reason.READY, 0, 1, 0, 0, 0).remedies == ()
    assert Explained(1234, 0, 0, 0, 0, 0).remedies == ()
