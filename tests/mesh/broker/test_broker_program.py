# SPDX-License-Identifier: Apache-2.0
"""The choice of the broker's program."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.broker import broker_program
from stoker.native.errors import NotSupported


def test_a_broker_that_is_named_is_the_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broker").touch()
    monkeypatch.setenv("STOKER_NATS_SERVER", str(tmp_path / "broker"))
    assert broker_program.broker_program() == tmp_path / "broker"
    monkeypatch.setenv("STOKER_NATS_SERVER", str(tmp_path / "missing"))
    with pytest.raises(NotSupported):
        broker_program.broker_program()


def test_a_broker_on_the_path_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOKER_NATS_SERVER", raising=False)
    monkeypatch.setattr(broker_program.sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotSupported, match=r"2\.15\.1"):
        broker_program.broker_program()
    (tmp_path / "nats-server").touch(mode=0o755)
    assert broker_program.broker_program() == tmp_path / "nats-server"
