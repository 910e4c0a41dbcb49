# SPDX-License-Identifier: Apache-2.0
"""Commands of a stand-in scheduler to one node, and a signature without a secret."""

from __future__ import annotations

from stoker.mesh.identity.identity import SIGNATURE_BYTES
from stoker.scheduler.nouns import Decision, JobSpec, Owner, StartJob, TaskKey

CLUSTER, NODE = "c", "n"
OWNER = Owner("alice", 1000, 1000)


class Seal:
    """Signature without a secret; data that a test changed does not verify."""

    def sign(self, data: bytes) -> bytes:
        return bytes([sum(data) % 251]) * SIGNATURE_BYTES

    def verify(self, data: bytes, signature: bytes) -> bool:
        return signature == self.sign(data)


def start_of(key: TaskKey, spec: JobSpec | None = None) -> StartJob:
    """Start command of an attempt, whose decision has an id made of the job's number."""
    decision = Decision(key[0] * 65536, NODE, (), "fits", 1)
    return StartJob(*key, decision, OWNER, spec or JobSpec(("true",)))
