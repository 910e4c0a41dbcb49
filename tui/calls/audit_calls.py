# SPDX-License-Identifier: Apache-2.0
"""Reads and checks the trail of a cluster's log, from a scheduler or from a file of it.

Owns the comparison of what the reader finds with what the scheduler says of itself, and with the
checkpoints of earlier audits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from stoker.mesh.audit.checkpoint_checks import CheckpointChecks, CheckpointFindings
from stoker.mesh.audit.trail import Trail, TrailEntry
from stoker.mesh.client.client import Client
from stoker.mesh.client.read_choice import ReadChoice
from stoker.mesh.log import log_archive, signed_checkpoint
from stoker.mesh.log.signed_checkpoint import SignedCheckpoint
from stoker.mesh.replica.snapshots import Snapshot
from stoker.mesh.wire.schema_audit import AuditView
from stoker.native.errors import Corrupt, Denied, NotFound

Follow = Callable[[TrailEntry], None]
"""Takes each entry that counts, in order."""


class Checkpoint(msgspec.Struct, frozen=True):
    """The end of a trail at the time of an audit. A log that is rewritten behind it, or loses its
    end, differs from it for ever."""

    cluster: str
    index: int
    hash: str
    t_ns: int
    """The time of the audit (CLOCK_REALTIME)."""


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of an audit whose trail is whole; of any other there are none."""

    cluster: str
    source: str
    """The public key of the scheduler that told it, or the file."""
    index: int
    """The last entry that counts has this index."""
    hash: str
    trail: str
    """The digest of all effects of the entries, made again here."""
    first_t_ns: int
    last_t_ns: int
    signed: dict[str, int]
    """The entries of each scheduler, by its number."""
    passed: dict[str, int]
    """Entries that did not count, by the schedulers' own name of the reason."""
    behind: int = 0
    """The trail of a restored cluster begins behind this entry, which its backup has."""
    compared: int = 0
    """The checkpoints that were compared with the trail and agree."""
    checkpoints: CheckpointFindings = CheckpointFindings()
    """The findings about checkpoints that schedulers have signed."""


class TrailAudit:
    """One audit in the making. `base` is the state of the backup of a restored cluster."""

    def __init__(
        self,
        checkpoints: list[Checkpoint],
        follow: Follow | None = None,
        base: Snapshot | None = None,
        checks: CheckpointChecks | None = None,
    ) -> None:
        self._trail = Trail(base=base)
        self.checks = checks or CheckpointChecks(())
        self._follow = follow
        self._known = {each.index: each for each in checkpoints}
        self._first_ns = self._last_ns = 0
        self._compared = 0

    def take(self, place: int, data: bytes) -> None:
        """Take the next entry; Corrupt if it is not what it must be."""
        taken = self._trail.take(place, data)
        if taken is None:
            return
        self._last_ns = taken.entry.now_ns
        self._first_ns = self._first_ns or self._last_ns
        assert self._trail.state is not None
        self.checks.take(self._trail.state)
        known = self._known.get(taken.index)
        if known is not None:
            self._compare(known, taken)
        if self._follow is not None:
            self._follow(taken)

    def _compare(self, known: Checkpoint, taken: TrailEntry) -> None:
        found = (taken.entry.cluster, taken.hash.hex())
        if found != (known.cluster, known.hash):
            raise Corrupt(
                f"entry {taken.index} is {found[1][:16]} of cluster {found[0]}, and a checkpoint"
                f" has {known.hash[:16]} of cluster {known.cluster}: the log was rewritten"
            )
        self._compared += 1

    def over(self, source: str, view: AuditView | None = None) -> Audited:
        """Return the result; Corrupt if the scheduler says otherwise, or a checkpoint is beyond
        the end."""
        state = self._trail.state
        if state is None:
            raise NotFound("there is no entry to audit")
        beyond = max(self._known, default=0)
        if beyond > state.index:
            raise Corrupt(
                f"the trail ends at entry {state.index}, and a checkpoint has entry {beyond}:"
                " the log lost its end"
            )
        if view is not None:
            self._trail.check_end(view.index, view.hash, view.trail)
        return Audited(
            cluster=state.cluster,
            source=source,
            index=state.index,
            hash=state.hash.hex(),
            trail=state.trail.hex(),
            first_t_ns=self._first_ns,
            last_t_ns=self._last_ns,
            signed={f"{number:016x}": count for number, count in self._trail.signed.items()},
            passed=dict(self._trail.passed),
            behind=self._trail.behind,
            compared=self._compared,
            checkpoints=self.checks.over(state),
        )


async def of_scheduler(state: str | None, reads: ReadChoice, audit: TrailAudit) -> Audited:
    """TrailAudit the trail that a scheduler tells, by default the leader."""
    async with Client.open(state, reads=reads) as client:
        async for view in client.trail():
            audit.checks.add(signed_of(view))
            for each in view.entries:
                audit.take(each.place, each.data)
        return audit.over(view.scheduler, view)


def of_file(path: Path, audit: TrailAudit) -> Audited:
    """TrailAudit a file that `export` wrote, or a segment of an archive."""
    try:
        audit.checks.add(signed_checkpoint.read(beside(path)))
        for place, data in log_archive.read_segment(path):
            audit.take(place, data)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except IsADirectoryError:
        raise NotFound(f"{path} is a folder, not a trail") from None
    except PermissionError:
        raise Denied(f"{path} cannot be read by this user") from None
    return audit.over(str(path))


def signed_of(view: AuditView) -> list[SignedCheckpoint]:
    """Return the signed checkpoints of a page."""
    found = msgspec.to_builtins(view.checkpoints)
    return msgspec.convert(found, list[SignedCheckpoint])


def beside(path: Path) -> Path:
    """Return the file with the signed checkpoints of an exported trail."""
    return path.with_name(f"{path.name}.{signed_checkpoint.FILE}")


# --- checkpoints ----------------------------------------------------------------------------------


def checkpoints(path: Path) -> list[Checkpoint]:
    """Return the checkpoints of a file, none if there is no file; Corrupt names a bad line."""
    if not path.exists():
        return []
    return [*_lines(path)]


def _lines(path: Path) -> Iterator[Checkpoint]:
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            yield msgspec.json.decode(line, type=Checkpoint)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Corrupt(f"{path}, line {number} is no checkpoint: {error}") from None


def add_checkpoint(path: Path, found: Audited) -> None:
    """Append the end of a trail durably to a file that only its owner writes."""
    made = Checkpoint(found.cluster, found.index, found.hash, time.time_ns())
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
        file.write(msgspec.json.encode(made) + b"\n")
        file.flush()
        os.fsync(file.fileno())
