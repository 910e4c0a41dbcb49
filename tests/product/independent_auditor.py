# SPDX-License-Identifier: Apache-2.0
"""An auditor of the log that knows nothing of stoker but its file format: it imports nothing of it.

Reads a trail as `stoker audit export` writes it: a line that names the format, then for each entry
its place (u64) and size (u32), little endian, and the sealed bytes: CRC-32, Ed25519 signature,
msgpack body. Prints what it found as JSON; ends with 1 and a reason if anything does not hold.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MAGIC = b"stoker log segment 1\n"
DOMAIN = b"stoker.v1.entry\0"
FIELDS = ("format", "cluster", "term", "leader", "batch", "prev_index", "prev_hash", "confirmed",
          "now_ns", "commands", "blobs")  # fmt: skip


def entries(data: bytes) -> Any:
    at = len(MAGIC)
    assert data[:at] == MAGIC, "no trail"
    while at < len(data):
        _, size = struct.unpack_from("<QI", data, at)
        yield data[at + 12 : at + 12 + size]
        at += 12 + size


def public_key(text: str) -> Ed25519PublicKey:
    raw = base64.b32decode(text + "=" * (-len(text) % 8))
    return Ed25519PublicKey.from_public_bytes(raw[1:33])


def audit(path: Path) -> dict[str, Any]:
    """Follow the chain from the genesis on, whose roster is the only one it knows."""
    index, digest, keys, cluster = 0, bytes(32), {}, ""
    jobs = users = 0
    for sealed in entries(path.read_bytes()):
        crc, signature, body = sealed[:4], sealed[4:68], sealed[68:]
        assert int.from_bytes(crc, "little") == zlib.crc32(sealed[4:]), "a checksum"
        entry = dict(zip(FIELDS, msgspec.msgpack.decode(body), strict=False))
        if not index:
            (_, genesis), *_ = entry["blobs"]
            cluster, roster = genesis["cluster"], genesis["schedulers"]
            keys = {each["number"]: public_key(each["public_key"]) for each in roster}
        if entry["prev_index"] != index:
            continue  # it did not count
        assert entry["prev_hash"] == digest, f"the chain breaks behind entry {index}"
        digest = hashlib.blake2b(body, digest_size=32).digest()
        keys[entry["leader"]].verify(signature, DOMAIN + digest)
        index += 1
        kinds = [kind for kind, *_ in entry["blobs"]]
        jobs += kinds.count("job")
        users += kinds.count("account")
    return {"cluster": cluster, "index": index, "hash": digest.hex(), "jobs": jobs, "users": users}


if __name__ == "__main__":
    try:
        print(json.dumps(audit(Path(sys.argv[1]))))
    except (AssertionError, InvalidSignature, KeyError, struct.error) as wrong:
        sys.exit(f"not a whole trail: {wrong!r}")
