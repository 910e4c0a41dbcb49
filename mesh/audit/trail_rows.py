# SPDX-License-Identifier: Apache-2.0
"""The rows of the trail: who changed what, one row for each change that an entry states.

Pure. `stoker audit show` prints them. Owns the words of the column `what`: a request's noun and
verb, or what happened to a job, a node, a user or a scheduler.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from stoker.mesh.audit.trail import TrailEntry
from stoker.mesh.log.entry import (
    AccountBlob,
    AdminBlob,
    ArrayBlob,
    ArrayCancelBlob,
    Blob,
    CancelBlob,
    EvictBlob,
    FeatureLevelBlob,
    GenesisBlob,
    JobBlob,
    NodeBlob,
    NodeRemovedBlob,
    OutcomeBlob,
    RosterBlob,
    SnapshotBlob,
)
from stoker.scheduler import records
from stoker.scheduler.nouns import JobSpec
from stoker.scheduler.wire_commands import Cancel, Forget

Fields: TypeAlias = dict[str, Any]
_specs = msgspec.msgpack.Decoder(JobSpec)


class TrailRow(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `user` is who asked for it; empty for what a scheduler found by itself."""

    index: int
    """The entry that states it."""
    t_ns: int
    """The leader's CLOCK_REALTIME as it wrote the entry."""
    term: int
    scheduler: str
    """The number of the scheduler that signed the entry, in hexadecimal."""
    user: str = ""
    what: str
    about: str = ""
    detail: str = ""
    routine: bool = False
    """True for what nobody asked for and what happens all the time: reports, outcomes."""


def rows(taken: TrailEntry) -> Iterator[TrailRow]:
    """Yield the changes of one entry in their order."""
    entry = taken.entry
    base = TrailRow(
        index=taken.index,
        t_ns=entry.now_ns,
        term=entry.term,
        scheduler=f"{entry.leader:016x}",
        what="",
    )
    if taken.begins_term and taken.index > 1:
        yield msgspec.structs.replace(base, what="term.begun", about=base.scheduler)
    commands = list(records.unpack_commands(entry.commands)) if entry.commands else []
    for blob in entry.blobs:
        told = _told(blob, taken, commands)
        if told:
            yield msgspec.structs.replace(base, **told)


def _told(blob: Blob, taken: TrailEntry, commands: list[records.Command]) -> Fields:
    """Return the fields of the row about a blob; none if another row tells of it."""
    if isinstance(blob, JobBlob):
        return _submitted(blob, taken.applied.submitted.get(blob.command, 0))
    if isinstance(blob, ArrayBlob):
        return _array(blob, taken.applied.submitted.get(blob.command, 0))
    if isinstance(blob, CancelBlob):
        return _ended(commands[blob.command], blob)
    says = _SAYS.get(type(blob))
    return says(blob) if says is not None else {}


def _submitted(blob: JobBlob, job: int) -> Fields:
    """Return the row of a job; none for a repeated request, which made no job."""
    if not job:
        return {}
    detail = _command(bytes(blob.spec))
    return {"user": blob.owner.user, "what": "job.submit", "about": str(job), "detail": detail}


def _array(blob: ArrayBlob, first: int) -> Fields:
    """Return the row of an array; none for a repeated request."""
    last = first + blob.indexes.size - 1
    found = _submitted(JobBlob(blob.command, blob.owner, blob.spec), first)
    return {**found, "about": f"{first}-{last}"} if found else found


def _cancelled(blob: ArrayCancelBlob) -> Fields:
    about = f"{blob.low}-{blob.high}"
    return {"user": blob.user, "what": "job.cancel", "about": about, "detail": blob.reason}


def _ended(command: records.Command, blob: CancelBlob) -> Fields:
    """Return the row of a job that was stopped or removed."""
    assert isinstance(command, Cancel | Forget), command
    what = "job.cancel" if isinstance(command, Cancel) else "job.remove"
    return {"user": blob.user, "what": what, "about": str(command.job), "detail": blob.reason}


def _asked(blob: AdminBlob) -> Fields:
    about, detail = _request(blob.content)
    return {"user": blob.user, "what": blob.request, "about": about, "detail": detail}


def _account(blob: AccountBlob) -> Fields:
    account = blob.account
    if account is None:
        return {"what": "user.removed", "about": blob.user}
    role = "administrator" if account.admin else "user"
    return {"what": "user.set", "about": blob.user, "detail": f"{role} {account.public_key}"}


def _founded(blob: GenesisBlob) -> Fields:
    made = blob.genesis
    if made.origin is None:
        return {"what": "cluster.founded", "about": made.cluster}
    detail = f"behind entry {made.origin.index} of cluster {made.origin.cluster}"
    return {"what": "cluster.restored", "about": made.cluster, "detail": detail}


def _evicted(blob: EvictBlob) -> Fields:
    return {"what": "node.evicted", "about": blob.node, "detail": blob.why}


def _removed(blob: NodeRemovedBlob) -> Fields:
    return {"what": "node.removed", "about": blob.node, "detail": blob.why}


def _roster(blob: RosterBlob) -> Fields:
    what = "scheduler.entered" if blob.member.number else "scheduler.left"
    return {"what": what, "detail": blob.member.public_key}


def _reported(blob: NodeBlob) -> Fields:
    count = len(blob.report.devices)
    detail = f"{count} device{'s' if count != 1 else ''}"
    return {"what": "node.report", "about": blob.report.node, "detail": detail, "routine": True}


def _outcome(blob: OutcomeBlob) -> Fields:
    outcome = blob.outcome
    return {"what": f"job.{outcome.state}", "about": str(outcome.job), "detail": outcome.reason,
            "routine": True}  # fmt: skip


_SAYS: Mapping[type, Callable[[Any], Fields]] = {
    ArrayCancelBlob: _cancelled,
    GenesisBlob: _founded,
    AdminBlob: _asked,
    AccountBlob: _account,
    EvictBlob: _evicted,
    NodeRemovedBlob: _removed,
    RosterBlob: _roster,
    FeatureLevelBlob: lambda blob: {"what": "cluster.level", "about": str(blob.level)},
    NodeBlob: _reported,
    OutcomeBlob: _outcome,
    SnapshotBlob: lambda blob: {"what": "log.snapshot", "about": str(blob.seq), "routine": True},
}
"""The fields of the row about each other kind of blob."""


def _request(content: str) -> tuple[str, str]:
    """Return what a request is about, which is its first field, and the others in words."""
    try:
        fields = json.loads(content)
    except ValueError:  # it was too long for the log
        return "", content
    words = [f"{name}={_word(value)}" for name, value in fields.items()]
    first = next(iter(fields.values()), "")
    if isinstance(first, str):
        return first, " ".join(words[1:])
    return "", " ".join(words)


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _command(spec: bytes) -> str:
    """Return the command of a job, without its environment, which may have passwords."""
    try:
        return " ".join(_specs.decode(spec).argv)
    except msgspec.MsgspecError:
        return ""
