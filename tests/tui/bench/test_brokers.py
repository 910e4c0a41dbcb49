# SPDX-License-Identifier: Apache-2.0
"""The brokers of a bench: they start as one cluster, and none is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.native.errors import Unavailable
from stoker.tui.bench import brokers


def test_each_broker_has_a_name_a_port_and_the_same_keys(tmp_path: Path) -> None:
    with brokers.running(tmp_path, 3) as group:
        assert [broker.name for broker in group] == ["broker-1", "broker-2", "broker-3"]
        assert len({broker.port for broker in group}) == 3
        seeds = {(broker.state / "keys/scheduler.nk").read_bytes() for broker in group}
        assert len(seeds) == 1
        assert all(broker.process.poll() is None for broker in group)
    assert all(broker.process.poll() is not None for broker in group)


def test_no_broker_is_left_after_a_failure(tmp_path: Path) -> None:
    group: list[brokers.Broker] = []
    with pytest.raises(ZeroDivisionError), brokers.running(tmp_path, 1) as started:
        group += started
        raise ZeroDivisionError
    assert group[0].process.poll() is not None


def test_routes_are_for_several_brokers(tmp_path: Path) -> None:
    with brokers.running(tmp_path / "one", 1) as (alone,):
        assert "cluster {" not in (alone.state / "nats-server.conf").read_text()
    with brokers.running(tmp_path / "two", 2) as group:
        for broker in group:
            config = broker.state / "nats-server.conf"
            assert "nats-route://" in config.read_text()
            assert config.stat().st_mode & 0o077 == 0


def test_a_broker_that_does_not_start_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\necho no such luck\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("STOKER_NATS_SERVER", str(program))
    with (
        pytest.raises(Unavailable, match="broker-1 does not start: no such luck"),
        brokers.running(tmp_path, 1),
    ):
        pass
