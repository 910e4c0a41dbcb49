# SPDX-License-Identifier: Apache-2.0
"""The bundle of a running node: what helps is in it, and nothing that is a secret or a name."""

from __future__ import annotations

import json
import re
import socket
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from product_node import LiveNode, live_node

from stoker.agent.commands import doctor_bundle
from stoker.agent.state import state_folder

SECRET = "opensesame"
SETTINGS = f"""
[otlp]
endpoint = "http://127.0.0.1:9"
headers = {{ "x-token" = "{SECRET}" }}
"""


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    with live_node() as live:
        yield live


def members(file: Path) -> dict[str, bytes]:
    found = {}
    with tarfile.open(file) as archive:
        for each in archive:
            assert each.isfile() and each.mode == 0o600
            data = archive.extractfile(each)
            assert data is not None
            found[each.name.removeprefix("stoker-bundle/")] = data.read()
    return found


def value(parts: dict[str, bytes], name: str) -> Any:
    return json.loads(parts[name])["value"]


def test_a_running_node_tells_what_helps_and_no_secret_or_name(
    node: LiveNode, tmp_path: Path
) -> None:
    (node.state.root / "config.toml").write_text(SETTINGS)
    done = node.stoker("run", "--name", "nightly-run", "--", "echo", "wordofthejob", check=False)
    assert done.returncode == 0, done.stderr
    file = tmp_path / "bundle.tar.gz"
    said = node.stoker("doctor", "--bundle", str(file), check=False)
    assert said.returncode in (0, 1), said.stderr
    first = said.stdout.decode().splitlines()[0]
    assert " checks: " in first and "fail" not in first
    assert b"Look at it before you share it" in said.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    parts = members(file)
    assert {"about.json", "checks.json", "machine.json", "processes.json", "settings.json"} <= set(
        parts
    )
    assert {"node/nodes.json", "node/devices.json", "node/cluster.json"} <= set(parts)
    assert value(parts, "about.json")["missing"] == {}
    running = {row["process"] for row in value(parts, "processes.json")}
    assert {"agent", "scheduler", "supervisor"} <= running
    assert parts["logs/scheduler.log"] and b"{" in parts["logs/agent.log"]
    endpoint = next(row for row in value(parts, "settings.json") if row["key"] == "otlp.endpoint")
    assert endpoint["value"] == "http://127.0.0.1:9"

    seeds = [path.read_text().strip() for path in node.state.keys.glob("*.nk")]
    assert len(seeds) >= 3
    users = json.loads(node.stoker("cluster", "-o", "json").stdout)
    hidden = [*seeds, SECRET, "nightly-run", "wordofthejob", socket.gethostname(), users["cluster"]]
    for name, data in parts.items():
        for word in hidden:
            whole = rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])"
            assert not re.search(whole.encode(), data), (name, word)


def test_a_file_that_is_there_is_never_replaced(node: LiveNode, tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_text("mine")
    refused = node.stoker("doctor", "--bundle", str(file), check=False)
    assert refused.returncode == 2 and b"is there already" in refused.stderr
    assert file.read_text() == "mine"


def test_without_a_node_the_bundle_says_what_is_missing(tmp_path: Path) -> None:
    where = state_folder.locate(tmp_path / "state")
    file = tmp_path / "bundle"
    doctor_bundle.write(where, file, [{"id": "a.b", "status": "PASS", "text": "fine"}])
    parts = members(file)
    assert value(parts, "about.json")["missing"] == {"node": "no node runs here"}
    assert value(parts, "checks.json")[0]["id"] == "a.b"
    assert not where.root.exists(), "nothing was made"


def test_only_the_end_of_a_large_log_is_taken_and_a_link_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_bundle, "LOG_BYTES_MAX", 15)
    where = state_folder.locate(tmp_path / "state")
    where.log.mkdir(parents=True)
    (where.log / "agent.log").write_text("first line\nsecond line\nthird\n")
    (tmp_path / "other").write_text("other")
    (where.log / "far.log").symlink_to(tmp_path / "other")
    file = tmp_path / "bundle"
    doctor_bundle.write(where, file, [])
    parts = members(file)
    assert parts["logs/agent.log"] == b"third\n"
    assert "logs/far.log" not in parts and "logs/far.log" in value(parts, "about.json")["missing"]
