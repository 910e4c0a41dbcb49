# SPDX-License-Identifier: Apache-2.0
"""Log entries prove that they are whole, who wrote them, and which entry they follow."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import entry
from stoker.mesh.log.entry import CancelBlob, Entry, JobBlob, NodeBlob, OutcomeBlob, SnapshotBlob
from stoker.native.errors import Corrupt
from stoker.scheduler.book import encode_spec
from stoker.scheduler.nouns import JobSpec, NodeReport, Outcome, Owner, Usage

SPEC = encode_spec(JobSpec(("true",)))


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


def made(**changes: object) -> Entry:
    blobs = (
        JobBlob(0, Owner("alice", 1000, 1000), msgspec.Raw(SPEC)),
        OutcomeBlob(1, Outcome(1, 1, 65536, "failed", 5, 3, None, "r", Usage(1, 2, 3, 4))),
        CancelBlob(2, "why"),
        NodeBlob(NodeReport("n1", "b", 1, 2, 3)),
        SnapshotBlob(4, b"d" * 32),
    )
    plain = Entry(entry.FORMAT, "c", 1, 2, 3, 4, b"p" * 32, 5, b"commands", blobs)
    return msgspec.structs.replace(plain, **changes)


def test_an_entry_comes_back_signed(signer: Identity, tmp_path: Path) -> None:
    sealed = entry.seal(made(), signer)
    opened = entry.unseal(9, sealed.data)
    assert opened.hash == sealed.hash
    assert entry.signed_by(opened, signer.verifier)
    assert not entry.signed_by(opened, identity.create(tmp_path / "o").verifier)
    job, outcome = opened.entry.blobs[:2]
    assert isinstance(job, JobBlob)
    assert bytes(job.spec) == SPEC
    assert isinstance(outcome, OutcomeBlob)
    assert outcome.outcome.usage == Usage(1, 2, 3, 4)


def test_every_flipped_bit_is_noticed(signer: Identity) -> None:
    data = entry.seal(made(), signer).data
    for bit in range(0, len(data) * 8, 13):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corrupt, match="log entry 9"):
            entry.unseal(9, bytes(broken))


def test_every_cut_is_noticed(signer: Identity) -> None:
    data = entry.seal(made(), signer).data
    for length in range(len(data)):
        with pytest.raises(Corrupt):
            entry.unseal(9, data[:length])


def test_another_format_is_refused_by_number(signer: Identity) -> None:
    data = entry.seal(made(format=9), signer).data
    with pytest.raises(Corrupt, match="format 9, this version reads"):
        entry.unseal(9, data)
