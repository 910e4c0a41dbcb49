# SPDX-License-Identifier: Apache-2.0
"""A join token is made only where hosts may join, and its secret is stored nowhere."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.agent.join import token_issue
from stoker.agent.state import joins, state_folder
from stoker.agent.state.joins import IssuedToken
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import broker_address
from stoker.mesh.connection.context import LOOPBACK
from stoker.mesh.identity import certificate, identity, join_token
from stoker.native.errors import BadRequest, NotFound, Refused

HERE = "127.0.0.2"
NOW = 1_000_000


@pytest.fixture
def where() -> Iterator[StateFolder]:
    with tempfile.TemporaryDirectory(prefix="stoker-test-") as folder:
        yield state_folder.locate(Path(folder, "state"))


def test_it_names_the_broker_and_keeps_the_public_half_alone(where: StateFolder) -> None:
    made = broker_address.init(where, HERE, None, "first")
    token = join_token.parse(token_issue.issue(where, 3600, NOW).text)
    assert (token.address, token.port) == (HERE, made.port)
    assert token.fingerprint == certificate.fingerprint(where.broker_certificate.read_bytes())
    assert token.guest.public == identity.load(where.key("guest")).public
    assert joins.load(where.joins).tokens == {token.key.public: IssuedToken(NOW + 3600)}
    secrets = (token.text, token.key.seed, token.key.raw.hex())
    for path in where.root.rglob("*"):
        if path.is_file():
            text = path.read_text(errors="replace")
            assert not any(secret in text for secret in secrets), path


def test_each_call_makes_another_one(where: StateFolder) -> None:
    broker_address.init(where, HERE, None, "first")
    made = {token_issue.issue(where, 3600, NOW).key.public for _ in range(3)}
    assert set(joins.load(where.joins).tokens) == made and len(made) == 3


def test_a_node_that_is_alone_makes_none(where: StateFolder) -> None:
    with pytest.raises(NotFound):
        token_issue.issue(where, 3600, NOW)
    broker_address.init(where, LOOPBACK, None, "first")
    with pytest.raises(Refused, match="no other host reaches node first"):
        token_issue.issue(where, 3600, NOW)
    assert not where.joins.exists()


@pytest.mark.parametrize("life_s", [0, 59, 30 * 86_400 + 1])
def test_a_life_without_end_or_use_is_refused(where: StateFolder, life_s: int) -> None:
    broker_address.init(where, HERE, None, "first")
    with pytest.raises(BadRequest, match="1 minute to 30 days"):
        token_issue.issue(where, life_s, NOW)
