# SPDX-License-Identifier: Apache-2.0
"""Files that a verb writes for a person to keep: private, whole, and of one kind.

Used by the export of a server and the backup of a cluster. Owns two promises: a file that cannot be
completed leaves nothing, and one of which a bit has changed is refused before anything is done.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from stoker.native import durable_file
from stoker.native.errors import BadRequest, Corrupt, Refused

_DIGEST_BYTES = 32

T = TypeVar("T")


class FileKind(NamedTuple):
    """One kind of such files. `magic` begins each of them, and the verb `made_by` writes them."""

    magic: bytes
    made_by: str
    bytes_max: int


def encode(kind: FileKind, content: Any) -> bytes:
    """Return the bytes of a file: its kind, the SHA-256 of the rest, the rest."""
    body = msgspec.msgpack.encode(content)
    return kind.magic + hashlib.sha256(body).digest() + body


def create(path: Path, data: bytes) -> None:
    """Make a private file that was not there, durably; an error leaves no part of it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Refused(f"{path} exists already", hint="Name a new file") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        durable_file.sync_folder(path.parent)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def read(kind: FileKind, path: Path, content: type[T]) -> T:
    """Return what a file has; BadRequest for one of another kind, Corrupt for a damaged one."""
    with path.open("rb") as file:
        data = file.read(kind.bytes_max + 1)
    head = len(kind.magic) + _DIGEST_BYTES
    if not data.startswith(kind.magic) or len(data) > kind.bytes_max:
        raise BadRequest(f"{path} was not made by `{kind.made_by}` of this version")
    digest, body = data[len(kind.magic) : head], data[head:]
    if hashlib.sha256(body).digest() != digest:
        raise Corrupt(f"{path} is damaged", hint="Take another copy of it")
    try:
        return msgspec.msgpack.decode(body, type=content)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{path} cannot be read: {error}") from None
