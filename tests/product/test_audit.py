# SPDX-License-Identifier: Apache-2.0
"""The trail of a live node's log: who changed what, audited from outside, and changes betrayed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from product_node import LiveNode, live_node, wait_until

from stoker.mesh.client.client import Client
from stoker.mesh.client.read_choice import ReadChoice
from stoker.mesh.connection import context
from stoker.mesh.log.log_archive import SegmentWriter, read_segment
from stoker.mesh.wire import subjects
from stoker.mesh.wire.schema_audit import AuditReadRequest
from stoker.native.errors import StokerError
from stoker.native.paths import program

pytestmark = pytest.mark.needs_root

AUDITOR = Path(__file__).with_name("independent_auditor.py")
LOG_BYTES = 512 * 1024
"""A quarter of it makes a snapshot due, so that most entries are in the archive soon."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    with live_node(STOKER_SCHEDULER_LOG_MAX_BYTES=str(LOG_BYTES)) as live:
        yield live


@pytest.fixture(scope="module")
def held(node: LiveNode) -> int:
    """A job that waits for ever, of a user, in a node with some history."""
    job = node.submit("sleep", "600", gpu_milli=1000, name="held")
    node.stoker("queue", "set", "night", "--weight", "3")
    node.stoker("user", "add", "bob", "--unix-user", "nobody", "--key-out", f"{node.root}/bob.nk")
    os.chown(f"{node.root}/bob.nk", 0, 0)
    node.stoker("cancel", str(job), "--reason", "no longer needed")
    node.wait(job)
    wait_until(lambda: bool(changes(node, "--about", "bob")), "the scheduler has read the users")
    return job


def changes(node: LiveNode, *words: str) -> list[dict[str, Any]]:
    found: dict[str, Any] = json.loads(node.stoker("audit", "show", *words, "-o", "json").stdout)
    return found["changes"]


def test_each_change_is_there_with_the_user_who_asked_for_it(node: LiveNode, held: int) -> None:
    rows = changes(node)
    told = [(row["user"], row["what"], row["about"]) for row in rows]
    assert told[0] == ("", "cluster.founded", rows[0]["about"]) and rows[0]["index"] == 1
    for expected in (
        ("root", "job.submit", str(held)),
        ("root", "queue.set", "night"),
        ("", "user.set", "bob"),
        ("root", "job.cancel", str(held)),
    ):
        assert expected in told, told
    (queue,) = changes(node, "--about", "night")
    assert queue["detail"] == "weight=3"
    (cancel,) = [row for row in changes(node, "--about", str(held)) if row["what"] == "job.cancel"]
    assert cancel["detail"] == "no longer needed, by root"
    assert {row["user"] for row in changes(node, "--user", "root")} == {"root"}
    assert not any(row["routine"] for row in rows)
    assert any(row["what"] == "node.report" for row in changes(node, "--all"))
    table = node.stoker("audit", "show", "--about", "night").stdout.decode().splitlines()
    assert table[0].split() == ["ENTRY", "TIME", "USER", "WHAT", "ABOUT", "DETAIL"]
    assert "queue.set" in table[1]


def test_a_request_that_changes_nothing_leaves_no_entry(node: LiveNode, held: int) -> None:
    last = changes(node)[-1]["index"]
    assert b"nothing to change" in node.stoker("node", "undrain", _name(node)).stdout
    assert [row for row in changes(node, "--after", str(last)) if row["user"] == "root"] == []


def _name(node: LiveNode) -> str:
    (row,) = node.ask(lambda client: client.nodes()).nodes
    return row.node


def test_a_user_who_is_no_administrator_reads_nothing_of_it(node: LiveNode, held: int) -> None:
    """Neither the leader nor a scheduler of the user's choice answers."""
    own = context.find(str(node.root))
    bob = replace(own, user="bob", seed_file=Path(f"{node.root}/bob.nk"))
    scheduler = subjects.at(node.ask(lambda client: client.cluster()).schedulers[0].number)

    async def refused(reads: ReadChoice) -> str:
        async with Client.open(bob, patience_s=0, reads=reads) as client:
            with pytest.raises(StokerError) as refusal:
                await client.audit(AuditReadRequest())
        return refusal.value.code

    assert asyncio.run(refused(ReadChoice())) == "denied"
    assert asyncio.run(refused(ReadChoice(scheduler))) == "denied"


def test_two_auditors_agree_over_archive_and_log(node: LiveNode, held: int, tmp_path: Path) -> None:
    """The second one shares no code with the first: not the format, the chain or the signatures."""
    noop = str(program("stoker-bench-noop"))
    archive = node.state.root / "scheduler" / "archive"
    while not any(archive.glob("*.segment")):
        for number in range(40):
            node.submit(noop, str(number))
        assert len(node.jobs()) < 4000, "no snapshot was due"
    path = tmp_path / "trail"
    found = node.json("audit", "verify")
    node.stoker("audit", "export", str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    of_file = node.json("audit", "verify", str(path))
    assert found["passed"] == {} and of_file["index"] >= found["index"]  # type: ignore[operator]
    done = subprocess.run([sys.executable, AUDITOR, path], capture_output=True, check=True)
    other = json.loads(done.stdout)
    assert (other["cluster"], other["index"], other["hash"]) == (
        of_file["cluster"], of_file["index"], of_file["hash"]
    )  # fmt: skip
    signed = of_file["checkpoints"]
    assert signed["agree"] and not signed["unknown"]  # type: ignore[index,call-overload]
    assert other["jobs"] == len(node.jobs()) and other["users"] == 1, (
        "the first user is in the genesis"
    )


def test_a_pinned_key_vouches_for_an_exported_trail(
    node: LiveNode, held: int, tmp_path: Path
) -> None:
    """The scheduler signed its head when it started; the key is known from elsewhere."""
    path = tmp_path / "trail"
    node.stoker("audit", "export", str(path))
    kept = node.state.root / "scheduler" / "archive" / "checkpoints"
    key = json.loads(kept.read_text().splitlines()[0])["key"]
    said = node.stoker("audit", "verify", str(path), "--key", key).stdout.decode()
    assert f"by {key}" in said and "trusts" not in said
    assert "trusts" in (alone := node.stoker("audit", "verify", str(path)).stdout.decode())
    assert alone.endswith("pins a scheduler's key\n")
    again = ("audit", "verify", "--signed", str(kept), "--key", key)
    assert node.json(*again)["checkpoints"]["pinned"] is True  # type: ignore[call-overload,index]

    path.with_name("trail.checkpoints").unlink()
    done = node.stoker("audit", "verify", str(path), "--key", key, check=False)
    assert done.returncode != 0 and b"no checkpoint of the pinned key" in done.stderr
    lines = kept.read_text().splitlines()
    path.with_name("trail.checkpoints").write_text(lines[0].replace(key[:9], "U" * 9) + "\n")
    done = node.stoker("audit", "verify", str(path), check=False)
    assert done.returncode != 0 and b"was not signed by" in done.stderr


def test_an_export_that_fails_leaves_no_part_of_a_trail(node: LiveNode, tmp_path: Path) -> None:
    path = tmp_path / "trail"
    nowhere = ("--state", str(tmp_path / "none"))
    assert node.stoker("audit", "export", str(path), *nowhere, check=False).returncode != 0
    assert not path.exists()
    node.stoker("audit", "export", str(path))
    whole = path.read_bytes()
    assert node.stoker("audit", "export", str(path), check=False).returncode != 0
    assert path.read_bytes() == whole, "a trail is never overwritten"


def test_what_was_changed_or_cut_is_named(node: LiveNode, held: int, tmp_path: Path) -> None:
    path, other = tmp_path / "trail", tmp_path / "other"
    node.stoker("audit", "export", str(path))
    whole = list(read_segment(path))
    middle = len(whole) // 2
    place, data = whole[middle]

    def said(found: list[tuple[int, bytes]]) -> str:
        with other.open("wb") as file:
            writer = SegmentWriter(file)
            for each in found:
                writer.add(*each)
        done = node.stoker("audit", "verify", str(other), check=False)
        assert done.returncode != 0 and not done.stdout
        return done.stderr.decode()

    flipped = data[:-1] + bytes([data[-1] ^ 1])
    assert f"log entry {place}: the checksum" in said([*whole[:middle], (place, flipped)])
    assert "entries are missing or were changed" in said(whole[:middle] + whole[middle + 1 :])
    assert "not at the genesis" in said(whole[1:])


def test_a_checkpoint_elsewhere_betrays_a_log_that_lost_its_end(
    node: LiveNode, held: int, tmp_path: Path
) -> None:
    """Each audit adds one; a trail that is shorter, or of another cluster, differs from it."""
    kept, path = tmp_path / "checkpoints", tmp_path / "trail"
    node.stoker("audit", "export", str(path))
    node.stoker("queue", "set", "later")
    for compared in (0, 1, 2):
        found = node.json("audit", "verify", "--checkpoints", str(kept))
        assert found["compared"] in (compared, 1), "two audits of one entry are one checkpoint"
    before = kept.read_bytes()
    done = node.stoker("audit", "verify", str(path), "--checkpoints", str(kept), check=False)
    assert done.returncode != 0 and "the log lost its end" in done.stderr.decode()
    forged = json.loads(before.splitlines()[0]) | {"index": 3}
    kept.write_text(json.dumps(forged) + "\n")
    done = node.stoker("audit", "verify", "--checkpoints", str(kept), check=False)
    assert done.returncode != 0 and "the log was rewritten" in done.stderr.decode()
    kept.write_text("{}\n")
    done = node.stoker("audit", "verify", "--checkpoints", str(kept), check=False)
    assert done.returncode != 0 and "line 1 is no checkpoint" in done.stderr.decode()
