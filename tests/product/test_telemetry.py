# SPDX-License-Identifier: Apache-2.0
"""Telemetry of a live node: what a job leaves in the streams, who reads it, what a flood does."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from product_node import STOKER, LiveNode, live_node, plain_connection, wait_until

from stoker.mesh.client.client import Client
from stoker.mesh.connection import context
from stoker.mesh.connection.context import Context
from stoker.mesh.wire import schema, schema_telemetry, subjects
from stoker.mesh.wire.telemetry_streams import KINDS, STREAM_BYTES
from stoker.native.errors import BadRequest
from stoker.tui.calls import telemetry_calls

pytestmark = pytest.mark.needs_root

FLOOD_BYTES = 200_000
FLOOD = 2 * STREAM_BYTES // FLOOD_BYTES
"""The messages of a flood: twice what one stream keeps."""
KERNELS = Path(__file__).with_name("add_kernels.py").read_text()


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    """Root's jobs run as root here: the interpreter may lie where nobody else can read it."""
    with live_node("--root-jobs-as", "root") as live:
        wait_until(
            lambda: bool(live.ask(lambda client: client.devices()).devices), "a device is found"
        )
        yield live


def told(node: LiveNode, kind: str, *words: str) -> list[dict[str, Any]]:
    """Return the rows of one kind that a fresh subscriber finds."""
    lines = node.stoker("events", "--kind", kind, "-o", "jsonl", *words).stdout.splitlines()
    return [json.loads(line) for line in lines]


def of_job(node: LiveNode, kind: str, job: int) -> list[dict[str, Any]]:
    return told(node, kind, "--job", str(job))


def wait_end_told(node: LiveNode, job: int) -> None:
    """Wait until the end of a job is among the events; each stream is stored by itself."""
    wait_until(
        lambda: any(row["what"] == "succeeded" for row in of_job(node, "events", job)),
        "the end is told",
    )


def test_nothing_told_is_said_in_words(node: LiveNode) -> None:
    done = node.stoker("events", "--job", "999999", "--since", "5s")
    assert b"nothing of that was told in the past 5 s" in done.stderr and not done.stdout


def test_a_job_is_found_in_all_streams_after_its_end(node: LiveNode) -> None:
    wait_until(lambda: bool(told(node, "observations")), "an observation is kept")
    job = node.run(str(STOKER.parent / "python"), "-c", KERNELS, gpu_milli=1000, trace="full").job
    wait_end_told(node, job)
    wait_until(lambda: bool(of_job(node, "decisions", job)), "a decision is kept")
    wait_until(
        lambda: any(row["state"] == "succeeded" for row in of_job(node, "outcomes", job)),
        "an outcome is kept",
    )
    wait_until(lambda: any(row["final"] for row in of_job(node, "kernels", job)), "a last summary")
    whats = [row["what"] for row in of_job(node, "events", job)]
    assert whats[:2] == ["submitted", "starting"] and whats[-1] == "succeeded"
    (decision,) = of_job(node, "decisions", job)
    outcome = of_job(node, "outcomes", job)[-1]
    assert (outcome["decision"], outcome["state"]) == (decision["id"], "succeeded")
    last = of_job(node, "kernels", job)[-1]
    (row,) = last["kernels"]
    assert (row["name"], row["count"], last["decision"]) == ("add", 37, decision["id"])
    device = decision["devices"][0]["device"]
    observed = [each["id"] for each in told(node, "observations")[-1]["devices"]]
    assert device in observed
    assert decision["user"] == node.ask(lambda client: client.get(job)).user


def test_following_goes_on_where_history_ends(node: LiveNode) -> None:
    """Each job of a series is told once, those before the subscriber came and those after."""
    before = [node.run("true").job for _ in range(3)]
    follow = subprocess.Popen(
        [STOKER, "events", "--follow", "-o", "jsonl"], env=node.environment, stdout=subprocess.PIPE
    )
    try:
        assert follow.stdout is not None
        rows = [json.loads(follow.stdout.readline())]
        after = [node.run("true").job for _ in range(3)]
        while not (rows[-1].get("job") == after[-1] and rows[-1]["what"] == "succeeded"):
            rows.append(json.loads(follow.stdout.readline()))
    finally:
        follow.kill()
        follow.wait()
    for what in ("submitted", "starting", "succeeded"):
        jobs = [row["job"] for row in rows if row["what"] == what]
        assert [job for job in jobs if job in before + after] == before + after


def test_doctor_tells_what_is_kept(node: LiveNode) -> None:
    checks = node.stoker("doctor", check=False).stdout.decode()
    for kind in KINDS:
        assert f"telemetry.{kind}" in checks
    assert "discarded to make room" in checks


def test_a_user_reads_what_is_about_own_jobs_alone(node: LiveNode, tmp_path: Path) -> None:
    seed = tmp_path / "bob.nk"
    node.stoker("user", "add", "bob", "--unix-user", "nobody", "--key-out", str(seed))
    os.chown(seed, 0, 0)
    own = context.find(str(node.root))
    bob = Context(own.url, seed, "bob", own.certificate)
    node.run("true")

    async def series() -> int:
        async with Client.open(bob) as client:
            with pytest.raises(BadRequest, match="only an administrator reads observations"):
                await client.telemetry(schema_telemetry.TelemetryReadRequest(kind="observations"))
            return (await client.submit(schema.JobRequest(argv=("true",)))).job

    async def read() -> set[int]:
        async with Client.open(bob) as client:
            kinds: tuple[Any, ...] = ("events", "decisions", "outcomes", "kernels")
            told = telemetry_calls.told(client, kinds, 600, follow=False)
            return {each.row["job"] async for each in told}

    job = asyncio.run(series())
    node.wait(job)
    wait_until(lambda: asyncio.run(read()) == {job}, "bob reads of his job alone")


def test_telemetry_is_kept_again_after_the_broker_died(node: LiveNode) -> None:
    node.wait_for_new("nats-server", node.kill("nats-server"))
    job = node.run("true").job
    wait_until(
        lambda: any(row["what"] == "succeeded" for row in of_job(node, "events", job)),
        "the new broker keeps what is told",
    )


def test_a_flood_of_one_kind_costs_neither_the_log_nor_other_kinds(node: LiveNode) -> None:
    """A node that publishes far more than one stream keeps, while jobs are logged and run."""
    job = node.run("true").job
    wait_until(lambda: bool(of_job(node, "decisions", job)), "a decision is kept")
    jobs = asyncio.run(flood(node))
    assert {node.wait(each).state for each in jobs} == {"succeeded"}
    streams = node.ask(lambda client: client.telemetry_streams()).streams
    kept = {each.kind: each for each in streams}
    size, lost = kept["kernels"].bytes, kept["kernels"].discarded
    assert size is not None and STREAM_BYTES * 0.9 < size <= STREAM_BYTES
    assert lost is not None and lost >= FLOOD - STREAM_BYTES // FLOOD_BYTES
    assert kept["decisions"].discarded == 0
    assert [row["job"] for row in of_job(node, "decisions", job)] == [job]


async def flood(node: LiveNode) -> list[int]:
    """Publish with the agent's own key, and submit a job now and then."""
    own = context.find(str(node.root))
    agent = replace(own, seed_file=node.state.key("agent"))
    connection = await plain_connection(agent)
    message = json.dumps({"flood": "x" * FLOOD_BYTES}).encode()
    jobs = []
    async with Client.open(str(node.root)) as client:
        name = (await client.nodes()).nodes[0].node
        for number in range(FLOOD):
            await connection.publish(subjects.kernels("eve", name, 1), message)
            if number % (FLOOD // 5) == 0:
                await connection.flush()
                jobs.append((await client.submit(schema.JobRequest(argv=("true",)))).job)
    await connection.flush()
    await connection.close()
    return jobs


def test_what_happened_has_every_output_form(node: LiveNode) -> None:
    job = node.run("true").job
    wait_end_told(node, job)
    rows = of_job(node, "events", job)
    words = ("events", "--job", str(job), "-o")
    whole: Any = json.loads(node.stoker(*words, "json").stdout)
    assert [{"schema": "stoker/v1", **row} for row in whole["events"]] == rows
    assert node.stoker(*words, "name").stdout.decode() == f"j{job}\n" * len(rows)
    table = csv.DictReader(io.StringIO(node.stoker(*words, "csv").stdout.decode()))
    assert [row["what"] for row in table] == [row["what"] for row in rows]
    refused = node.stoker("events", "--follow", "-o", "csv", check=False)
    assert refused.returncode == 2 and b"use -o jsonl" in refused.stderr
    for verb in (("node", "show", node.ask(first_node)), ("cluster",), ("power", "status")):
        for form in ("csv", "name"):
            assert node.stoker(*verb, "-o", form).returncode == 0


async def first_node(client: Client) -> str:
    return (await client.nodes()).nodes[0].node
