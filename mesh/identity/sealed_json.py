# SPDX-License-Identifier: Apache-2.0
"""JSON files that carry a digest of their content.

Owns the invariant that one changed bit is noticed, since a damaged file may still decode. A file
without a digest is accepted. The digest detects damage; it does not prove who wrote the file.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

import msgspec

NAME = "#blake2b"
"""The field of the digest, beside the record's own fields."""
_DIGEST_BYTES = 16

T = TypeVar("T")


def encode(record: Any) -> bytes:
    """Return a record (a JSON object) with its digest, indented for people."""
    raw = msgspec.to_builtins(record)
    assert isinstance(raw, dict) and NAME not in raw, "only objects have room for a digest"
    text = msgspec.json.encode({**raw, NAME: _digest(raw)})
    return msgspec.json.format(text, indent=2) + b"\n"


def decode(data: bytes, kind: type[T]) -> T:
    """Return the record; msgspec.DecodeError if it is not one or was changed."""
    try:
        raw = msgspec.json.decode(data)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(str(error)) from None
    if isinstance(raw, dict) and NAME in raw:
        digest = raw.pop(NAME)
        if digest != _digest(raw):
            raise msgspec.DecodeError(
                f"its content was changed; remove the line {NAME!r} if that was on purpose"
            )
    return msgspec.convert(raw, kind)


def _digest(raw: dict[str, Any]) -> str:
    text = msgspec.json.encode(raw, order="sorted")
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()
