# SPDX-License-Identifier: Apache-2.0
"""Key and certificate of a broker that a test starts, made as the first `up` makes them."""

from __future__ import annotations

from pathlib import Path

from stoker.mesh.connection.context import CERTIFICATE
from stoker.mesh.identity import certificate


def pair(folder: Path) -> tuple[str, str]:
    """Make both files in a folder; paths of the key and of the certificate."""
    key, pinned = certificate.make("test")
    where = folder / "broker.key", folder / CERTIFICATE
    for path, data in zip(where, (key, pinned), strict=True):
        path.touch(0o600)
        path.write_bytes(data)
    return str(where[0]), str(where[1])
