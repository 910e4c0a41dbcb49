# SPDX-License-Identifier: Apache-2.0
"""Orders of a make-believe scheduler to one node: a signature anyone can check, starts, stops."""

from __future__ import annotations

from stoker.mesh.identity.identity import SIGNATURE_BYTES
from stoker.scheduler.nouns import Decision, JobSpec, Owner, StartJob

CLUSTER, NODE = "c", "n"
OWNER = Owner("alice", 1000, 1000)

Key = tuple[int, int]


class Seal:
    """Signs and checks without a secret: what a script breaks on purpose does not verify."""

    def sign(self, data: bytes) -> bytes:
        return bytes([sum(data) % 251]) * SIGNATURE_BYTES

    def verify(self, data: bytes, signature: bytes) -> bool:
        return signature == self.sign(data)


def start_of(key: Key, spec: JobSpec | None = None) -> StartJob:
    """A start with a decision whose id tells the job."""
    decision = Decision(key[0] * 65536, NODE, (), "fits", 1)
    return StartJob(*key, decision, OWNER, spec or JobSpec(("true",)))
