# SPDX-License-Identifier: Apache-2.0
"""Snapshot files: the whole state after one log entry, so that the log can be trimmed.

Owns two promises: a file is complete on disk before it gets its final name, and a damaged file is
never loaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from stoker.mesh.log.entry import NO_HASH
from stoker.mesh.log.feature_level import BUILD, FORMATS
from stoker.mesh.log.genesis import ClusterConfig
from stoker.native import durable_file
from stoker.native.errors import Corrupt
from stoker.scheduler.nouns import Record

FORMAT = FORMATS[BUILD.newest].snapshot
_READ = frozenset(each.snapshot for each in FORMATS.values())
"""The formats of all levels that this build supports."""
KEPT = 2
"""The number of files that are kept; the older one is for a damaged newest one."""
_MAGIC = b"stoker snapshot\n"
_DIGEST_BYTES = 32
_SUFFIX = ".snapshot"


class Snapshot(Record, frozen=True):
    """The state after the entry of `index`, which the next entry follows.

    `seq` is the last sequence of the log that the replica had read; equal states may have another.
    """

    format: int
    cluster: str
    seq: int
    index: int
    hash: bytes
    term: int
    batch: int
    snapshot_seq: int
    """The snapshot before this one, up to which the log may be trimmed."""
    core: bytes
    book: bytes
    config: ClusterConfig
    time_ns: int = 0
    """The time of the last entry."""
    trail: bytes = NO_HASH
    """The digest of all effects so far."""


class _Numbered(Record, frozen=True):
    """The beginning of a snapshot of any format."""

    format: int


class OtherFormat(Corrupt):
    """A whole snapshot in a format that this build does not read; nothing is damaged."""


class Encoded(NamedTuple):
    """A snapshot as the bytes of a file, with the digest that the log records."""

    data: bytes
    digest: bytes


class FoundSnapshots(NamedTuple):
    """The newest good snapshot of a folder, and what is wrong with newer files."""

    snapshot: Snapshot | None
    digest: bytes
    damaged: list[str]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Snapshot)
_numbered = msgspec.msgpack.Decoder(_Numbered)


def encode(snapshot: Snapshot) -> Encoded:
    """Return the bytes of a snapshot file: magic, digest of the body, body."""
    body = _encoder.encode(snapshot)
    digest = hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
    return Encoded(_MAGIC + digest + body, digest)


def agreement(snapshot: Snapshot) -> bytes:
    """Return the digest that equal states have in all replicas, wherever each has read the log."""
    return encode(msgspec.structs.replace(snapshot, seq=0)).digest


def decode(data: bytes, what: str = "snapshot") -> tuple[Snapshot, bytes]:
    """Return the snapshot and its digest; Corrupt unless `encode` made exactly these bytes, and
    OtherFormat if that of another build did."""
    head = len(_MAGIC) + _DIGEST_BYTES
    digest, body = data[len(_MAGIC) : head], data[head:]
    if not data.startswith(_MAGIC):
        raise Corrupt(f"{what} is not a snapshot ({len(data)} bytes)")
    if hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest() != digest:
        raise Corrupt(f"{what} is damaged: its {len(data)} bytes do not match its digest")
    try:
        found = _numbered.decode(body).format
        if found not in _READ:
            read = ", ".join(map(str, sorted(_READ)))
            raise OtherFormat(f"{what} has format {found}, this version reads {read}")
        return _decoder.decode(body), digest
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{what}: {error}") from None


class SnapshotFolder:
    """The snapshot files of one replica, named by the index of their last entry.

    Only the index grows with the state: after a log was lost, later entries have lower sequences.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, snapshot: Snapshot) -> Encoded:
        """Write a file durably, verify it, drop old ones; return its content.

        Raises OSError if it cannot be written, Corrupt if it reads back differently.
        """
        encoded = encode(snapshot)
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = self.path / f".{snapshot.index}.partial"
        final = self._file(snapshot.index)
        try:
            _write(partial, encoded.data)
            _verify(partial.read_bytes(), encoded.digest, partial)
            partial.replace(final)
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
        durable_file.sync_folder(self.path)
        self._prune()
        return encoded

    def install(self, data: bytes) -> None:
        """Have these bytes as the only file, durably; with no bytes, have none.

        Raises OSError if it cannot be written, Corrupt if they are not a snapshot.
        """
        kept = None
        if data:
            kept = self._file(decode(data)[0].index)
            partial = self.path / f".{kept.name}.partial"
            _write(partial, data)
            partial.replace(kept)
            durable_file.sync_folder(self.path)
        for old in self._files():
            if old != kept:
                old.unlink()
        durable_file.sync_folder(self.path)

    def newest_file(self) -> Path | None:
        """Return the newest file, damaged or not; None if there is none."""
        return next(reversed(self._files()), None)

    def newest(self, cluster: str) -> FoundSnapshots:
        """Return the newest good file; raise Corrupt if that belongs to another cluster, or if a
        newer one is whole and of another format: an older state would not be this replica's."""
        damaged: list[str] = []
        for file in reversed(self._files()):
            try:
                snapshot, digest = decode(file.read_bytes(), str(file))
            except OtherFormat:
                raise
            except (Corrupt, OSError) as error:
                damaged.append(str(error))
                continue
            if snapshot.cluster != cluster:
                raise Corrupt(f"{file} belongs to cluster {snapshot.cluster}, this is {cluster}")
            return FoundSnapshots(snapshot, digest, damaged)
        return FoundSnapshots(None, b"", damaged)

    def _file(self, index: int) -> Path:
        return self.path / f"{index:020d}{_SUFFIX}"

    def _files(self) -> list[Path]:
        return sorted(self.path.glob(f"*{_SUFFIX}"))

    def _prune(self) -> None:
        for old in self._files()[:-KEPT]:
            old.unlink(missing_ok=True)


def _verify(data: bytes, digest: bytes, path: Path) -> None:
    body = memoryview(data)[len(_MAGIC) + _DIGEST_BYTES :]
    if hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest() != digest:
        raise Corrupt(f"{path} reads back as something else than was written")


def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) or 0 :]
        os.fsync(file.fileno())
