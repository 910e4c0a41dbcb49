# SPDX-License-Identifier: Apache-2.0
"""JSON files that say themselves whether they are what stoker wrote.

Owns the invariant that one changed bit is noticed: a file that decodes and has another meaning is
worse than one that does not. A file without a seal is taken as it is; the seal guards against
damage and proves nothing about who wrote.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

import msgspec

NAME = "#blake2b"
"""The seal's place beside the record's own fields."""
_DIGEST_BYTES = 16

T = TypeVar("T")


def encode(record: Any) -> bytes:
    """A record (an object of JSON) with its seal, indented so that people can read it."""
    raw = msgspec.to_builtins(record)
    assert isinstance(raw, dict) and NAME not in raw, "only objects have room for a seal"
    text = msgspec.json.encode({**raw, NAME: _digest(raw)})
    return msgspec.json.format(text, indent=2) + b"\n"


def decode(data: bytes, kind: type[T]) -> T:
    """The record; msgspec.DecodeError where it is none, or was changed."""
    try:
        raw = msgspec.json.decode(data)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(str(error)) from None
    if isinstance(raw, dict) and NAME in raw:
        seal = raw.pop(NAME)
        if seal != _digest(raw):
            raise msgspec.DecodeError(
                f"its content was changed; who changed it on purpose takes the line {NAME!r} out"
            )
    return msgspec.convert(raw, kind)


def _digest(raw: dict[str, Any]) -> str:
    text = msgspec.json.encode(raw, order="sorted")
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()
