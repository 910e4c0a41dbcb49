# SPDX-License-Identifier: Apache-2.0
"""The public messages about the trail of the log: its entries, as they were signed.

Owns the cursor of a reader: the place of the last entry that it had.
"""

from __future__ import annotations

from stoker.mesh.wire.schema_cluster import Int, Message, Part, ReplyMessage

ENTRIES_BYTES_MAX = 256 * 1024
"""The most bytes of entries in one AuditView; one entry is never larger."""


class AuditReadRequest(Message, frozen=True):
    """`audit.read`: entries of the log behind a place, for administrators."""

    after: Int = 0


class AuditEntry(Part, frozen=True):
    """One entry as it was sealed (base64). `place` is its sequence in the log, or with several
    schedulers its index."""

    place: int
    data: bytes


class AuditCheckpoint(Part, frozen=True):
    """The head of the log as a scheduler had applied and signed it (`SignedCheckpoint`)."""

    cluster: str
    index: int
    hash: str
    trail: str
    t_ns: int
    key: str
    signature: str
    state: str = ""


class AuditView(ReplyMessage, frozen=True):
    """The next entries, and where the state of the scheduler that answers is."""

    cluster: str
    scheduler: str
    """The public key of the scheduler that answers."""
    schedulers: tuple[str, ...]
    """The public keys of the roster, empty where a scheduler has left."""
    index: int
    """The last entry that the scheduler has applied."""
    hash: str
    """The hash of that entry, in hexadecimal."""
    trail: str
    """The digest of all effects up to it, in hexadecimal."""
    entries: tuple[AuditEntry, ...] = ()
    more: bool = False
    """True if entries are known behind these."""
    checkpoints: tuple[AuditCheckpoint, ...] = ()
    """The newest checkpoints that the scheduler has signed, on the first page alone."""
