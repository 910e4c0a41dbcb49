# SPDX-License-Identifier: Apache-2.0
"""Settings of a whole node: from config.toml and the options of `up` to its processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from product_node import LiveNode, live_node

from stoker.agent.supervise import broker_port, pids

pytestmark = pytest.mark.needs_root

COMMAND_LOG = 16 << 20


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    def prepare(node: LiveNode) -> None:
        node.stoker("config", "init")
        file = node.root / "config.toml"
        text = file.read_text()
        usual = broker_port.choose(node.state.instance)
        port = broker_port.choose(node.state.instance, beside=usual)
        for before, after in (
            ("# port =", f"port = {port}"),
            ("# root_jobs_as =", 'root_jobs_as = "root"'),
            ("# command_log_max_bytes =", f"command_log_max_bytes = {COMMAND_LOG}"),
            ("# labels = []", 'labels = ["zone=a"]'),
        ):
            assert text.count(f"\n{before}\n") == 1
            text = text.replace(f"\n{before}\n", f"\n{after}\n")
        file.write_text(text)

    with live_node("--label", "rack=1", prepare=prepare) as live:
        yield live


def printed(node: LiveNode) -> dict[str, dict[str, Any]]:
    rows: Any = node.json("config", "print", "--changed")["settings"]
    return {row["key"]: row for row in rows}


def test_what_the_file_says_is_what_the_processes_have(node: LiveNode) -> None:
    rows = printed(node)
    port = rows["up.port"]["value"]
    assert str(port) in node.state.endpoint.read_text()
    scheduler = pids.find(node.state)["scheduler"].pid
    environment = Path(f"/proc/{scheduler}/environ").read_bytes().split(b"\0")
    assert f"STOKER_SCHEDULER_LOG_MAX_BYTES={COMMAND_LOG}".encode() in environment
    assert node.output(node.run("id", "-un").job) == b"root\n"


def test_each_value_names_its_source(node: LiveNode) -> None:
    found = {key: (row["value"], row["source"]) for key, row in printed(node).items()}
    assert found.pop("up.port")[1] == "file"
    assert found == {
        "up.root_jobs_as": ("root", "file"),
        "up.command_log_max_bytes": (COMMAND_LOG, "file"),
        "node.labels": (["zone=a", "rack=1"], "file and --label, kept"),
    }


def test_labels_of_file_and_option_are_those_of_the_node(node: LiveNode) -> None:
    assert b"zone=a" in node.stoker("nodes", "-o", "json").stdout
    assert b"rack=1" in node.stoker("nodes", "-o", "json").stdout
