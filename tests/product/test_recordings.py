# SPDX-License-Identifier: Apache-2.0
"""Recordings of a live node: what a job left in the ring is replayed when the node is gone."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes.pty_screen import PtyScreen
from product_node import STOKER, LiveNode, live_node, wait_until

from stoker.mesh.connection import context
from stoker.mesh.recording import ring_files
from stoker.mesh.recording.recording_file import RecordingFile
from stoker.mesh.wire import schema
from stoker.native.errors import StokerError

pytestmark = pytest.mark.needs_root

KERNELS = Path(__file__).with_name("add_kernels.py").read_text()
PYTHON = str(STOKER.parent / "python")


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    with live_node("--root-jobs-as", "root") as live:
        wait_until(lambda: bool(ring_rows(live).get("devices")), "a device is in the ring")
        yield live


def ring_rows(node: LiveNode) -> dict[str, dict[str, Any]]:
    """The newest rows of the node's ring; none before its first block."""
    try:
        file = recorded_past(node)
    except StokerError:
        return {}
    return {
        part: {key: msgspec.json.decode(row) for key, row in rows.items()}
        for part, rows in file.state(file.last_ns).items()
    }


def recorded_past(node: LiveNode) -> RecordingFile:
    from stoker.tui.calls import recordings

    folder = node.state.agent / ring_files.FOLDER
    return RecordingFile(recordings.of_ring(folder, 600, 1 << 62), "the ring")


def replayed(node: LiveNode, path: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        node.stoker("replay", str(path), "-o", "json", *words).stdout
    )
    return found


def state(path: Path, t_ns: int | None = None) -> dict[str, dict[str, Any]]:
    file = RecordingFile.open(path)
    rows = file.state(file.last_ns if t_ns is None else t_ns)
    return {
        part: {key: msgspec.json.decode(row) for key, row in rows[part].items()} for part in rows
    }


def plain(node: LiveNode, path: Path) -> str:
    """The whole text of a recording, unpacked."""
    file = RecordingFile.open(path)
    return "\n".join(
        f"{each.part} {key} {(row or b'').decode()}"
        for block in file.blocks
        for each in file.moments(block)
        for key, row in each.rows.items()
    )


def test_what_happens_is_recorded_from_the_bus_as_its_verbs_tell_it(
    node: LiveNode, tmp_path: Path
) -> None:
    job = node.submit("sleep", "600", gpu_milli=1000, name="held")
    node.wait(job, "running")
    path = tmp_path / "now.rec"
    done = node.stoker("record", "--for", "2s", "--interval", "0.5", str(path))
    assert "gaps     none" in done.stdout.decode() and path.stat().st_mode & 0o777 == 0o600
    told = replayed(node, path)
    assert told["recorded_by"]["source"] == "bus" and told["gaps"] == [] == told["damages"]
    assert 1e9 < told["span_ns"] < 60e9 and job in told["jobs"]
    assert told["bytes_per_device_hour"] == pytest.approx(
        told["bytes"] / (told["span_ns"] / 3.6e12 * len(told["devices"]))
    )
    (row,) = node.ask(lambda client: client.devices()).devices
    then = msgspec.convert(state(path)["devices"][f"{row.node}:{row.id}"], schema.DeviceView)
    assert (then.granted_milli, then.jobs) == (row.granted_milli, row.jobs) == (1000, (job,))
    node.stoker("cancel", str(job))
    node.wait(job)


def test_a_user_gets_what_the_bus_tells_that_user_and_a_gap_for_the_rest(
    node: LiveNode, tmp_path: Path
) -> None:
    secret = node.run("sh", "-c", "exit 0 # root-only-plan", name="rootsplan").job
    seed, home = tmp_path / "bob.nk", tmp_path / "config" / "stoker"
    home.mkdir(parents=True)
    node.stoker("user", "add", "bob", "--unix-user", "nobody", "--key-out", str(seed))
    os.chown(seed, 0, 0)
    own = context.find(str(node.root))
    saved = {"url": own.url, "seed_file": str(seed), "user": "bob",
             "certificate_file": str(own.certificate)}  # fmt: skip
    (home / "context.json").write_text(json.dumps(saved))
    kept = node.environment
    bob = {key: value for key, value in kept.items() if key != "STOKER_STATE"}
    node.environment = {**bob, "XDG_CONFIG_HOME": str(home.parent)}
    try:
        path = tmp_path / "bob.rec"
        node.stoker("record", "--last", "5m", str(path))
        told = replayed(node, path)
    finally:
        node.environment = kept
    assert told["recorded_by"] == {
        "version": "0.1.0", "user": "bob", "source": "bus", "interval_s": 0.0
    }  # fmt: skip
    assert secret not in told["jobs"] and told["devices"]
    (gap,) = told["gaps"]
    assert "its administrator reads" in gap["why"]
    text = plain(node, path)
    assert "root-only-plan" not in text and "rootsplan" not in text


def test_a_shared_recording_holds_no_name(node: LiveNode, tmp_path: Path) -> None:
    words = ("sh", "-c", "exit 0 # /srv/merger-plans/q3")
    job = node.run(*words, name="project-osprey", env={"API_TOKEN": "hunter2hunter2"}).job
    whole, shared = tmp_path / "whole.rec", tmp_path / "shared.rec"
    node.stoker("record", "--for", "1s", str(whole))
    told = replayed(node, whole, "--redact", str(shared))
    assert told["redacted"] and job in told["jobs"]
    host = node.ask(lambda client: client.nodes()).nodes[0].node
    before, after = plain(node, whole), plain(node, shared)
    for secret in ("merger", "osprey", "/srv"):
        assert secret in before and secret not in after
    assert f'"node":"{host}"' in before and f'"node":"{host}"' not in after
    assert '"user":"root"' in before and '"user":"root"' not in after
    assert "hunter2" not in before, "no environment is recorded"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", b"is empty"),
        (b"GIF89a", b"is no recording of stoker. `stoker record FILE` makes one"),
        (b"stoker recording 99\n", b"is a recording of format 99"),
        (b"stoker recording 1\nabc", b"cannot be replayed: it is cut off"),
    ],
)
def test_a_file_that_cannot_be_replayed_gets_one_line(
    node: LiveNode, tmp_path: Path, content: bytes, words: bytes
) -> None:
    path = tmp_path / "x.rec"
    path.write_bytes(content)
    done = node.stoker("replay", str(path), check=False)
    assert done.returncode != 0 and done.stdout == b""
    assert words in done.stderr and done.stderr.count(b"\n") == 1


def test_wrong_words_of_record_are_refused_before_anything_is_recorded(
    node: LiveNode, tmp_path: Path
) -> None:
    for words, said in (
        (("--last", "1m", "--for", "1m", "x.rec"), b"name one of them"),
        ((str(tmp_path),), b"is a folder"),
        ((str(tmp_path / "no" / "x.rec"),), b"there is no folder"),
        (("--last", "soon", "x.rec"), b"--last"),
        (("-o", "x.rec", "y.rec"), b"The file to write is an argument: stoker record FILE"),
    ):
        done = node.stoker("record", *words, check=False)
        assert done.returncode != 0 and said in done.stderr


def test_the_past_is_replayed_when_the_node_is_gone(node: LiveNode, tmp_path: Path) -> None:
    """This test ends the node."""
    job = node.run(PYTHON, "-c", KERNELS, gpu_milli=1000, trace="full", name="traced").job
    view = node.wait(job, trace=True)
    (device,) = node.ask(lambda client: client.devices()).devices

    def final() -> bool:
        row = ring_rows(node).get("job", {}).get(str(job), {})
        return bool(row.get("state") == "succeeded" and row.get("trace"))

    wait_until(final, "the job's end is in the ring", 60)
    agent = node.kill("agent")
    node.wait_for_new("agent", agent)
    folder = node.state.agent / ring_files.FOLDER
    wait_until(lambda: len(ring_files.segments(folder)) > 1, "a second segment", 60)
    wait_until(final, "what was recorded is recorded by the new agent too", 60)
    node.stoker("down")
    newest = ring_files.segments(folder)[0]
    with newest.open("ab") as file:  # a writer that died in the middle of a block
        file.write(b"\x40\x00\x00\x00half a block")
    path = tmp_path / "past.rec"
    node.stoker("record", "--last", "10m", str(path))
    told = replayed(node, path)
    assert told["recorded_by"]["source"] == "ring" and job in told["jobs"]
    assert any("cut off" in gap["why"] for gap in told["gaps"])
    rows = state(path)
    recorded = msgspec.convert(rows["job"][str(job)], schema.JobView)
    assert recorded.trace == msgspec.json.decode(msgspec.json.encode(view.trace))
    assert (recorded.state, recorded.times, recorded.exit_code, recorded.device_ns) == (
        view.state, view.times, view.exit_code, view.device_ns
    )  # fmt: skip
    (kernel,) = recorded.trace["kernels"]
    assert (kernel["name"], kernel["count"]) == ("add", 37)
    assert rows["devices"][f"{device.node}:{device.id}"]["model"] == device.model
    at_end = node.stoker("top", "job", str(job), "--replay", str(path), "--once").stdout.decode()
    assert "REPLAY" in at_end.splitlines()[0] and "succeeded" in at_end
    assert re.search(r"^add +37 ", at_end, re.MULTILINE), at_end
    with PtyScreen([str(STOKER), "top", "jobs", "--replay", str(path)], node.environment) as screen:
        screen.wait(lambda s: "REPLAY" in s.lines[0] and "x1" in s.lines[0], "the replay plays")
        screen.press(" ")
        screen.wait(lambda s: "stopped" in s.lines[0], "it stops")
        for _ in range(80):
            screen.press("L")
        screen.wait_for("traced")
        screen.press("\x04")
        screen.wait_for("this is a recording")
        screen.press("?")
        screen.wait_for("REPLAY")
        screen.press("\x03")
        assert screen.wait_end() == 0
    whats = [each.row["what"] for each in RecordingFile.open(path).events
             if each.row.get("job") == job]  # fmt: skip
    assert whats[:2] == ["submitted", "starting"] and whats[-1] == "succeeded"
