# SPDX-License-Identifier: Apache-2.0
"""Notifications: exact lines for a supervisor that listens, nothing for one that does not."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from stoker.mesh.server import notify


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(tmp_path / "notify"))
    listener.settimeout(2)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    return listener


def test_the_lines_that_are_sent(heard: socket.socket) -> None:
    notify.ready("ok")
    notify.status("blocked: a\nb")
    notify.stopping()
    notify.alive()
    lines = [heard.recv(4096) for _ in range(4)]
    assert lines == [b"READY=1\nSTATUS=ok", b"STATUS=blocked: a b", b"STOPPING=1", b"WATCHDOG=1"]


def test_an_abstract_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0stoker-test-notify")
        listener.settimeout(2)
        monkeypatch.setenv("NOTIFY_SOCKET", "@stoker-test-notify")
        notify.ready()
        assert listener.recv(100) == b"READY=1"


def test_a_supervisor_that_does_not_listen_is_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify.ready("ok")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify.ready("ok")


def test_a_listener_that_does_not_read_delays_no_notification(heard: socket.socket) -> None:
    for _ in range(2000):
        notify.status("x" * 5000)
    assert len(heard.recv(8192)) <= 520
