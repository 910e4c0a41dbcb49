# SPDX-License-Identifier: Apache-2.0
"""Log entries prove that they are whole, who wrote them, and which entry they follow."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import entry
from stoker.mesh.log.entry import CancelBlob, Entry, JobBlob, NodeBlob, OutcomeBlob, SnapshotBlob
from stoker.mesh.replica import raw_start, snapshots
from stoker.mesh.replica.raw_start import StartRaw
from stoker.mesh.wire import command, lease_messages, queries
from stoker.native.errors import Corrupt
from stoker.scheduler.book import encode_spec
from stoker.scheduler.nouns import JobSpec, NodeReport, Outcome, Owner, Record, StartJob, Usage

SPEC = encode_spec(JobSpec(("true",)))
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "records" / "entry.txt"
FULL = JobSpec(
    argv=("a", "b"), cwd="/c", env={"D": "e"}, name="f", gpu_milli=1, cpu_milli=2, memory_bytes=3,
    pids=4, time_limit_s=5.5, grace_s=6.5, priority=-7, trace="full", stdin=True, umask=8,
    output_bytes_max=9, queue="g", placement="fgd", models=("h",), require=("i=j",),
    avoid=("k=l",), tolerate=("m=n",), group="o", company="repel", estimate_s=10.5, after=(11,),
    after_any=(15,), retries=12, backoff_s=13, preemptible=True, preemptor=False, min_run_s=14,
    same_link=True, device_memory_bytes=15, array_size=16, array_index=17, array_place=18,
    device_kind="any", mix_vendors=False,
)  # fmt: skip
"""Each option with a value of its own."""


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


def made(**changes: object) -> Entry:
    blobs = (
        JobBlob(0, Owner("alice", 1000, 1000), msgspec.Raw(SPEC)),
        OutcomeBlob(1, Outcome(1, 1, 2, 77, 65536, "failed", 5, 3, None, "r", Usage(1, 2, 3, 4))),
        CancelBlob(2, "why"),
        NodeBlob(NodeReport("n1", "b", 1, 2, 3)),
        SnapshotBlob(4, b"d" * 32),
    )
    plain = Entry(entry.FORMAT, "c", 1, 2, 3, 4, b"p" * 32, 4, 5, b"commands", blobs)
    return msgspec.structs.replace(plain, **changes)


def test_golden_entry_is_the_bytes_that_the_log_keeps() -> None:
    """The body of an entry as it was in the first log of this format; JobSpec with every option."""
    job = JobBlob(0, Owner("alice", 1000, 1001, (1002,)), msgspec.Raw(encode_spec(FULL)))
    body = msgspec.msgpack.encode(made(blobs=(job, *made().blobs)))
    lines = [body[at : at + 32].hex(" ", -4) + "\n" for at in range(0, len(body), 32)]
    if os.environ.get("STOKER_GOLDEN") == "rewrite":
        GOLDEN.write_text("".join(lines))
    assert "".join(lines) == GOLDEN.read_text(), f"{GOLDEN}: the format of an entry changed"


STORED_OR_SENT = ("stoker.scheduler.nouns", entry.__name__, command.__name__, queries.__name__)
STORED_OR_SENT += (snapshots.__name__, raw_start.__name__, lease_messages.__name__)


def records() -> list[type[msgspec.Struct]]:
    """Every record that encodes as an array and is stored, or sent between daemons."""
    found: list[type[msgspec.Struct]] = [JobSpec]
    left: list[type[msgspec.Struct]] = [Record]
    while left:
        kinds = left.pop().__subclasses__()
        found += [kind for kind in kinds if kind.__module__ in STORED_OR_SENT]
        left += kinds
    return sorted(found, key=lambda kind: (kind.__module__, kind.__name__))


def test_golden_order_of_the_fields_of_every_record() -> None:
    """Arrays have no names: two swapped fields would be read as each other."""
    lines = []
    for kind in records():
        tag = kind.__struct_config__.tag
        lines.append(f"{kind.__name__}{f' ({tag})' if tag else ''}: ")
        lines[-1] += " ".join(kind.__struct_fields__) + "\n"
    path = GOLDEN.with_name("fields.txt")
    if os.environ.get("STOKER_GOLDEN") == "rewrite":
        path.write_text("".join(lines))
    assert "".join(lines) == path.read_text(), (
        f"{path}: an added field is the last, or needs a new format"
    )


def test_a_start_with_an_unread_spec_is_a_start() -> None:
    assert StartRaw.__struct_fields__ == StartJob.__struct_fields__


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
    data = entry.seal(made(format=entry.FORMAT + 1), signer).data
    with pytest.raises(Corrupt, match=f"format {entry.FORMAT + 1}, this version reads"):
        entry.unseal(9, data)
