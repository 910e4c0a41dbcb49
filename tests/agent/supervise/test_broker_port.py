# SPDX-License-Identifier: Apache-2.0
"""The broker's port is the same at every start, and its present user is named."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from stoker.agent.supervise import broker_port
from stoker.native.errors import Refused

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_the_same_folder_gets_the_same_port_while_it_is_free() -> None:
    port = broker_port.choose("00000007")
    assert broker_port.choose("00000007") == port
    assert broker_port.FIRST <= port < broker_port.FIRST + broker_port.COUNT
    assert int(EPHEMERAL.read_text().split()[0]) >= broker_port.FIRST + broker_port.COUNT


def test_a_taken_port_is_passed_over_and_its_holder_named() -> None:
    port = broker_port.choose("00000008")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert not broker_port.is_free(port)
        assert broker_port.choose("00000008") != port
        assert broker_port.holder(port).startswith(f"pid {os.getpid()} (")
    assert broker_port.is_free(port)


def test_a_port_of_root_differs_from_one_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    port = broker_port.choose("00000009")
    broker_port.check(port)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(Refused, match=rf"port {port} is in use by pid {os.getpid()} "):
            broker_port.check(port)
    monkeypatch.setattr(broker_port, "lowest_open", lambda: port + 1)
    assert not broker_port.is_usable(port)
    with pytest.raises(Refused, match=rf"reserved for root.* Give one from {port + 1} to 65535"):
        broker_port.check(port)


def test_a_holder_that_cannot_be_seen_is_reported() -> None:
    assert "another" in broker_port.holder(1)
