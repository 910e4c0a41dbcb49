# SPDX-License-Identifier: Apache-2.0
"""The words of the log about the end of an attempt: its state, and why it ended.

Pure: they follow from the entry alone, so that all replicas say the same.
"""

from __future__ import annotations

from itertools import islice

from stoker.mesh.log.entry import Entry
from stoker.mesh.replica.entry_step import EntryStep
from stoker.scheduler.book import Job
from stoker.scheduler.effects import StateChanged
from stoker.scheduler.nouns import NOT_BEGUN, JobState, Outcome
from stoker.scheduler.reasons import Reason, sentence
from stoker.scheduler.records import Preempt, unpack_commands
from stoker.scheduler.wire_names import LAUNCHES_MAX

LOST_WITH_NODE = "its node rebooted or was given up"
EVIDENCE_SINCE = 4
"""The feature level from which on an attempt that is followed by another one keeps the evidence."""


def end_of(outcome: Outcome) -> JobState:
    """Return the state in which an attempt ended; one that was not begun was called off."""
    return "cancelled" if outcome.state in NOT_BEGUN else outcome.job_state


def unlaunched(record: Job, text: str) -> str:
    """Return why a job of one task ends that could not be launched, with the nodes that tried
    before."""
    before = [each for each in reversed(record.attempts) if each.started_ns is None]
    tried = [each.decision.node for each in before[: LAUNCHES_MAX - 1] if each.decision]
    return f"{text}; before that on {', '.join(reversed(tried))}" if tried else text


def said(effect: StateChanged, outcome: Outcome | None) -> str:
    """Return the words of a node about an end, or those of the core about any change."""
    if outcome is not None and outcome.reason:
        return outcome.reason
    if effect.reason in (Reason.REPORTED, Reason.RETRIED) and outcome is not None:
        if outcome.signal is not None:
            return f"ended by signal {outcome.signal}"
        if outcome.exit_code is not None:
            return f"exit code {outcome.exit_code}"
    return sentence(effect.reason)


def preempted(effect: StateChanged, entry: Entry) -> str:
    """Return the reason of a preemption, with the job that needs the room."""
    command = next(islice(unpack_commands(entry.commands), effect.command, None), None)
    why = "another queue was short of its guarantee" if effect.reason == Reason.RECLAIMED else ""
    if isinstance(command, Preempt) and command.beneficiary:
        why = f"{why}, " if why else ""
        return f"preempted: {why}job {command.beneficiary} needs the room"
    return f"preempted: {why or 'room was needed'}"


def lost_with_node(effect: StateChanged, step: EntryStep, level: int) -> str:
    """Return why an attempt ended of whose end nobody told: its node rebooted, or was given up on
    the evidence that this entry has."""
    why = step.evicted.get(effect.node, "") if level >= EVIDENCE_SINCE else ""
    return f"{sentence(Reason.NODE_EVICTED)}: {why}" if why else LOST_WITH_NODE


def asked_for(effect: StateChanged, record: Job, step: EntryStep) -> str:
    """Return the words of a person, or of the leader that gave up a node, about this change."""
    if effect.reason == Reason.NODE_EVICTED:
        return step.evicted.get(effect.node, "")
    return record.stopped_for if effect.reason == Reason.CANCEL_REQUESTED else ""
