# SPDX-License-Identifier: Apache-2.0
"""Turns an entry that counts into rows of telemetry: decisions, outcomes and events.

Pure. Owns the names of events and which of them belong to a user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from stoker.mesh.log.entry import (
    CordonBlob,
    DrainBlob,
    Entry,
    EvictBlob,
    NodeBlob,
    NodeRemovedBlob,
    RosterBlob,
)
from stoker.mesh.replica.changes import Decided, JobChange, ToldOutcome
from stoker.mesh.replica.events import EntryTold
from stoker.mesh.telemetry.outgoing_batches import OutgoingBatches, Topic
from stoker.mesh.wire import subjects
from stoker.mesh.wire.telemetry import ChangeRow, DecisionRow, GivenShare, OutcomeRow
from stoker.scheduler.nouns import DeviceShare, NodeReport

CLUSTER: Final = Topic(subjects.CLUSTER_EVENTS, "events", "")
USERS_KEPT: Final = 1024
"""The users whose topics are kept, since each row of telemetry has one."""
REASON_CHARS: Final = 500
"""A longer reason is cut: the job itself has the whole one."""


class _Topics(NamedTuple):
    decisions: Topic
    outcomes: Topic
    events: Topic


@lru_cache(USERS_KEPT)
def _topics(user: str) -> _Topics:
    """Return the topics of what is told about one user's jobs."""
    return _Topics(
        Topic(subjects.decisions(user), "decisions", user),
        Topic(subjects.outcomes(user), "outcomes", user),
        Topic(subjects.job_events(user), "events", user),
    )


def put(batches: OutgoingBatches, committed: EntryTold, nodes: Mapping[str, NodeReport]) -> None:
    """Add all rows of an entry; `nodes` are their newest reports, which name devices."""
    changes, entry = committed.changes, committed.entry
    index, log_ns = entry.prev_index + 1, entry.now_ns
    for decided in changes.decisions:
        topic = _topics(decided.job.owner.user).decisions
        batches.put(topic, _decision(decided, log_ns, nodes), index)
    for reported in changes.outcomes:
        batches.put(_topics(reported.job.owner.user).outcomes, _outcome(reported), index)
    for change in changes.jobs:
        batches.put(_topics(change.job.owner.user).events, _job_event(change, log_ns), index)
    for event in _cluster_events(entry):
        batches.put(CLUSTER, event, index)


def put_leader(batches: OutgoingBatches, term: int, t_ns: int, index: int) -> None:
    """Add that this scheduler leads from now on, after entry `index`."""
    row = ChangeRow(t_ns=t_ns, what="scheduler.leads", reason=f"term {term}")
    batches.put(CLUSTER, row, index)


def _decision(decided: Decided, log_ns: int, nodes: Mapping[str, NodeReport]) -> DecisionRow:
    made = decided.decision
    report = nodes.get(made.node)
    return DecisionRow(
        id=made.id,
        t_ns=log_ns,
        job=decided.job.job,
        attempt=decided.attempt,
        task=decided.task,
        node=made.node,
        devices=tuple(_share(each, report) for each in made.devices),
        reason=made.reason[:REASON_CHARS],
        latency_ns=made.latency_ns,
        observations=made.observations,
    )


def _share(share: DeviceShare, report: NodeReport | None) -> GivenShare:
    known = report is not None and share.index < len(report.devices)
    device = report.devices[share.index].id if known and report is not None else str(share.index)
    return GivenShare(device=device, milli=share.milli)


def _outcome(reported: ToldOutcome) -> OutcomeRow:
    said = reported.outcome
    used = said.usage
    return OutcomeRow(
        t_ns=said.t_ns,
        job=said.job,
        attempt=said.attempt,
        task=said.task,
        decision=said.decision,
        state=said.state,
        reason=said.reason[:REASON_CHARS],
        exit_code=said.exit_code,
        signal=said.signal,
        started_ns=said.started_ns,
        device_ns=said.device_ns,
        cpu_ns=used.cpu_ns if used is not None else None,
        memory_peak_bytes=used.memory_peak_bytes if used is not None else None,
    )


def _job_event(change: JobChange, log_ns: int) -> ChangeRow:
    """Return the event of a job: `submitted`, or the state that it has now."""
    new = change.state == "pending" and not change.attempt
    return ChangeRow(
        t_ns=log_ns,
        what="submitted" if new else change.state,
        job=change.job.job,
        attempt=change.attempt,
        reason=change.reason[:REASON_CHARS],
    )


def _cluster_events(entry: Entry) -> Iterator[ChangeRow]:
    t_ns = entry.now_ns
    for blob in entry.blobs:
        match blob:
            case NodeBlob(report):
                gone = ", ".join(each.id for each in report.devices if each.unavailable)
                refuses = f"takes no jobs: {report.drain}" if report.drain else ""
                why = "; ".join(filter(None, (refuses, f"without {gone}" if gone else "")))
                yield ChangeRow(t_ns=t_ns, what="node.reported", node=report.node, reason=why)
            case EvictBlob(node, _, why):
                yield ChangeRow(t_ns=t_ns, what="node.evicted", node=node, reason=why)
            case NodeRemovedBlob(node, _, _, why):
                yield ChangeRow(t_ns=t_ns, what="node.removed", node=node, reason=why)
            case RosterBlob(_, member):
                what = "scheduler.entered" if member.number else "scheduler.left"
                yield ChangeRow(t_ns=t_ns, what=what)
            case DrainBlob(node, why):
                what = "node.drained" if why else "node.undrained"
                yield ChangeRow(t_ns=t_ns, what=what, node=node, reason=why)
            case CordonBlob(node, device, why):
                what = "device.cordoned" if why else "device.uncordoned"
                yield ChangeRow(t_ns=t_ns, what=what, node=node, device=device, reason=why)
            case _:
                pass
