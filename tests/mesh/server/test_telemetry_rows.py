# SPDX-License-Identifier: Apache-2.0
"""Requests go through a whole replica, up to the rows that telemetry tells of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.entry import CordonBlob, DrainBlob
from stoker.mesh.replica import events
from stoker.mesh.server import telemetry_rows
from stoker.mesh.telemetry.outgoing_batches import OutgoingBatches
from stoker.mesh.wire import subjects, telemetry
from stoker.scheduler.nouns import Observation, Usage
from tests.mesh.bench import ALICE, BOB, Bench


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity, tmp_path: Path) -> Bench:
    return Bench(signer, tells=True).lead().hello()


def told(bench: Bench) -> dict[str, list[dict[str, Any]]]:
    """The rows of each subject, for all entries so far."""
    batches = OutgoingBatches("test")
    for committed in bench.committed:
        telemetry_rows.put(batches, committed, bench.replica.state.book.nodes)
    rows: dict[str, list[dict[str, Any]]] = {}
    for subject, data in batches.take():
        rows.setdefault(subject, []).extend(telemetry.decode_batch(data).rows)
    return rows


def states(rows: list[dict[str, Any]]) -> list[tuple[int, str, str]]:
    return [(row["job"], row["what"], row.get("reason", "")) for row in rows]


def test_a_job_from_submit_to_end(bench: Bench) -> None:
    bench.feed(events.Observed("n1", Observation(41, "n1", bench.now, 0, 1 << 33)))
    bench.submit("s", gpu_milli=500)
    bench.outcome(1, "running")
    bench.outcome(1, "succeeded", exit_code=0, usage=Usage(7, 8), started_ns=5)
    rows = told(bench)
    (decision,) = rows[subjects.decisions("alice")]
    assert (decision["job"], decision["attempt"], decision["node"]) == (1, 1, "n1")
    assert decision["devices"] == [{"device": "gpu-0", "milli": 500}]
    made = bench.replica.state.book.get(1).decision
    assert made is not None
    assert (decision["id"], decision["reason"]) == (made.id, made.reason)
    assert [row["state"] for row in rows[subjects.outcomes("alice")]] == ["running", "succeeded"]
    end = rows[subjects.outcomes("alice")][1]
    assert (end["exit_code"], end["cpu_ns"], end["memory_peak_bytes"]) == (0, 7, 8)
    whats = [row["what"] for row in rows[subjects.job_events("alice")]]
    assert whats == ["submitted", "starting", "running", "succeeded"]
    assert rows[subjects.job_events("alice")][3]["reason"] == "exit code 0"


def test_what_is_about_a_user_goes_to_that_user_alone(bench: Bench) -> None:
    bench.submit("a", owner=ALICE)
    bench.submit("b", owner=BOB)
    bench.feed(events.CancelRequested("c", [2], "no longer needed"))
    rows = told(bench)
    assert {row["job"] for row in rows[subjects.job_events("alice")]} == {1}
    assert {row["job"] for row in rows[subjects.job_events("bob")]} == {2}
    assert states(rows[subjects.job_events("bob")])[-1][1] in ("stopping", "cancelled")
    assert "no longer needed" in states(rows[subjects.job_events("bob")])[-1][2]


def test_an_attempt_that_its_node_did_not_begin(bench: Bench) -> None:
    bench.submit("s", gpu_milli=1000)
    bench.outcome(1, "pending", reason="the device is occupied")
    rows = told(bench)
    assert [row["attempt"] for row in rows[subjects.decisions("alice")]] == [1]
    whats = [row["what"] for row in rows[subjects.job_events("alice")]]
    assert whats == ["submitted", "starting", "pending"]


def test_the_cluster_tells_of_leaders_nodes_and_devices(bench: Bench) -> None:
    drained = (DrainBlob("n1", "new fans"), DrainBlob("n1", ""))
    cordoned = (CordonBlob("n1", "gpu-0", "too hot"), CordonBlob("n1", "gpu-0", ""))
    bench.feed(events.Admin("x", (), (*drained, *cordoned)))
    rows = told(bench)[subjects.CLUSTER_EVENTS]
    batches = OutgoingBatches("test")
    telemetry_rows.put_leader(batches, 3, 5, 7)
    ((subject, data),) = batches.take()
    leads = telemetry.decode_batch(data)
    assert (subject, leads.index, leads.rows[0]["reason"]) == (subjects.CLUSTER_EVENTS, 7, "term 3")
    assert [(row["what"], row.get("node", ""), row.get("reason", "")) for row in rows] == [
        ("node.reported", "n1", ""),
        ("node.drained", "n1", "new fans"),
        ("node.undrained", "n1", ""),
        ("device.cordoned", "n1", "too hot"),
        ("device.uncordoned", "n1", ""),
    ]
    assert rows[3]["device"] == "gpu-0"


def test_a_node_that_refuses_jobs_says_why_in_its_event(bench: Bench) -> None:
    report = bench.replica.state.book.nodes["n1"]
    full = msgspec.structs.replace(report, drain="1.0 MiB are free at /var/lib/stoker")
    bench.feed(events.NodeReported("h1", full))
    bench.feed(events.NodeReported("h2", report))
    rows = told(bench)[subjects.CLUSTER_EVENTS]
    assert [row.get("reason", "") for row in rows if row["what"] == "node.reported"][-2:] == [
        "takes no jobs: 1.0 MiB are free at /var/lib/stoker",
        "",
    ]


def test_a_replica_that_nobody_listens_to_makes_no_rows(signer: Identity) -> None:
    silent = Bench(signer).lead().hello()
    silent.submit("s")
    assert silent.committed == []
