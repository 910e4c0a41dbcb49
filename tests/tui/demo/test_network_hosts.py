# SPDX-License-Identifier: Apache-2.0
"""Hosts that are network namespaces: who has whose hardware address from the start."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from stoker.native.errors import Unavailable
from stoker.tui.demo import network_hosts
from stoker.tui.demo.network_hosts import Host


def test_hosts_that_are_acquainted_have_to_ask_for_no_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("a", "b", "c")
    hosts = [Host(n, f"10.0.0.{i}", Path("/"), f"ns-{n}", f"sk{i}") for i, n in enumerate(names)]
    told: dict[str, list[str]] = {}

    def ip(*words: str, stdin: str = "") -> str:
        if "show" in words:
            return json.dumps([{"address": f"02:{words[1]}"}])
        told[words[1] if words[0] == "-n" else "between"] = stdin.splitlines()
        return ""

    monkeypatch.setattr(network_hosts, "ip", ip)
    network_hosts._acquaint(hosts)
    assert {place: len(lines) for place, lines in told.items()} == {
        "between": 3, "ns-a": 2, "ns-b": 2, "ns-c": 2,
    }  # fmt: skip
    assert told["ns-a"][0] == ("neighbour replace 10.0.0.1 lladdr 02:ns-b nud permanent dev eth0")


def test_a_verb_that_does_not_end_is_a_host_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(command: list[str], **_: object) -> None:
        raise subprocess.TimeoutExpired(command, network_hosts.VERB_S)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(Unavailable, match="`stoker up` on a has not ended within 120 s"):
        Host("a", "10.0.0.1", Path("/"), "ns-a", "sk1").stoker("up")
