# SPDX-License-Identifier: Apache-2.0
"""The core's numbers of names; no other file hashes a name.

Hashes are stored in the log, so the functions never change. The names of hashes are kept in the
reports of nodes and in the job book.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

from stoker.native.errors import BadRequest
from stoker.scheduler.policies import VENDORS, VENDORS_MAX

NAME_CHARS_MAX: Final = 63
LABEL_CHARS_MAX: Final = 128
IDS_KEPT: Final = 4096
"""The names whose ids are kept, since each sample of a node asks for some."""
DEFAULT_QUEUE: Final = "default"
"""The name of the default queue, which is the core's queue 0 and always exists."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9_.-]*[a-z0-9])?", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_./-]*[A-Za-z0-9])?=[A-Za-z0-9_.:/-]*", re.ASCII)


def hash64(data: bytes) -> int:
    """Return 64 bits of blake2b."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


@lru_cache(IDS_KEPT)
def name_id(name: str) -> int:
    """Return the core's id of a node, a device model, a label "key=value" or a group; never 0."""
    return hash64(name.encode()) or 1


def vendor_number(vendor: str) -> int:
    """Return the core's number of a vendor; 0 for none.

    A vendor outside VENDORS gets one of the other numbers, which two such names may share.
    """
    own = len(VENDORS) + 1
    other = own + hash64(vendor.encode()) % (VENDORS_MAX - own)
    return VENDORS.get(vendor, other if vendor else 0)


def queue_id(name: str) -> int:
    """Return the core's 32-bit id of a queue; 0 for the default queue and for an empty name."""
    if name in ("", DEFAULT_QUEUE):
        return 0
    return hash64(b"queue\0" + name.encode()) & 0xFFFF_FFFF or 1


def check_name(name: str, what: str) -> str:
    """Return the name of a queue or a group unchanged; BadRequest if it is invalid."""
    if len(name) > NAME_CHARS_MAX or not _NAME.fullmatch(name):
        raise BadRequest(
            f"{what} {name[:80]!r} is no name: up to {NAME_CHARS_MAX} of a-z 0-9 _ . -,"
            " with a letter or digit at both ends"
        )
    return name


def check_label(label: str, what: str = "label") -> str:
    """Return a label "key=value" unchanged; BadRequest if it is invalid."""
    if len(label) > LABEL_CHARS_MAX or not _LABEL.fullmatch(label):
        raise BadRequest(f"{what} {label[:80]!r} is not KEY=VALUE of at most {LABEL_CHARS_MAX}")
    return label


def label_key(label: str) -> str:
    """Return the part of a label before the "="."""
    return label.partition("=")[0]
