# SPDX-License-Identifier: Apache-2.0
"""`cluster init` stores an address and refuses what cannot be one, without starting a node."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.new_server import new_server

from stoker.agent.join import token_issue
from stoker.agent.join.registrar import Registrar
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import (
    broker_address,
    broker_port,
    broker_setup,
    lock,
    own_folder,
    own_users,
)
from stoker.mesh.connection import context
from stoker.mesh.identity import sealed_json
from stoker.mesh.log import log_record
from stoker.mesh.log.genesis import Genesis
from stoker.mesh.wire import join_messages
from stoker.native.errors import BadRequest, Refused

NOW = 1_000_000
HERE = "127.0.0.2"
"""An own address other than the one of a node that is alone; every Linux host has it."""


@pytest.fixture
def where() -> Iterator[StateFolder]:
    with tempfile.TemporaryDirectory(prefix="stoker-test-") as folder:
        yield state_folder.locate(Path(folder, "state"))


def settings(where: StateFolder) -> str:
    """The broker's configuration as the next `up` writes it."""
    cluster = state_folder.load(where)
    return broker_setup.text(where, cluster, own_users.load(where)).decode()


def test_a_new_node_is_made_and_listens_at_the_address_with_tls_alone(where: StateFolder) -> None:
    made = broker_address.init(where, HERE, None, "first")
    assert state_folder.load(where) == made
    assert (made.node, made.address) == ("first", HERE)
    assert made.url == f"tls://{HERE}:{made.port}" == context.own_broker(where.root)
    assert f'host: "{HERE}"' in settings(where)
    assert "handshake_first: true" in settings(where)
    assert "allow_non_tls" not in settings(where)
    assert context.own_security(where.root)["tls_handshake_first"]


@pytest.mark.parametrize("name", ["First!", "a.b", "*", "../x", "-n", "n" * 64])
def test_a_name_that_no_node_could_join_with_makes_nothing(where: StateFolder, name: str) -> None:
    with pytest.raises(BadRequest, match="cannot be a node's name"):
        broker_address.init(where, HERE, None, name)
    assert not where.root.exists()


def test_the_way_back_changes_nothing_else(where: StateFolder) -> None:
    alone = broker_address.init(where, context.LOOPBACK, None, "")
    before = settings(where)
    assert "allow_non_tls: true" in before
    assert context.own_security(where.root) == {}
    opened = broker_address.init(where, HERE, None, "")
    assert opened.cluster == alone.cluster
    assert opened.port == alone.port
    assert broker_address.init(where, context.LOOPBACK, None, "") == alone
    assert settings(where) == before


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("here", "is not an IPv4 address"),
        ("::1", "is not an IPv4 address"),
        ("0.0.0.0", "is not one address"),
        ("224.0.0.1", "is not one address"),
        ("192.0.2.7", "this host has no address"),
    ],
)
def test_an_address_that_is_not_this_hosts_makes_nothing(
    where: StateFolder, address: str, said: str
) -> None:
    with pytest.raises(BadRequest, match=said):
        broker_address.init(where, address, None, "")
    assert not where.root.exists()


def test_a_node_that_runs_and_another_name_are_refused(where: StateFolder) -> None:
    broker_address.init(where, HERE, None, "first")
    before = where.cluster.read_bytes()
    with pytest.raises(Refused, match="named first"):
        broker_address.init(where, HERE, None, "second")
    held = lock.take(where)
    assert held is not None
    with pytest.raises(Refused, match="a node runs"):
        broker_address.init(where, context.LOOPBACK, None, "")
    os.close(held)
    assert where.cluster.read_bytes() == before


def test_the_port_that_others_know_is_not_left(where: StateFolder) -> None:
    made = broker_address.init(where, HERE, broker_port.choose("0badcafe", HERE), "")
    with pytest.raises(Refused, match="other hosts reach the broker"):
        broker_setup.settle_port(where, made, made.port + 1, {})
    assert broker_setup.settle_port(where, made, made.port, {}) == made
    with socket.socket() as taken:
        taken.bind((HERE, made.port))
        taken.listen()
        with pytest.raises(Refused, match=f"pid {os.getpid()} "):
            broker_setup.settle_port(where, made, None, {})


def replicated(where: StateFolder) -> bool:
    return sealed_json.decode(where.genesis.read_bytes(), Genesis).replicated


def test_the_genesis_of_a_log_that_is_not_begun_says_that_others_may_come(
    where: StateFolder,
) -> None:
    broker_address.init(where, HERE, None, "first")
    assert replicated(where)
    begun = where.genesis.read_bytes()
    broker_address.init(where, context.LOOPBACK, None, "")
    assert where.genesis.read_bytes() == begun


def test_the_rules_of_a_log_that_is_begun_stay(where: StateFolder) -> None:
    state_folder.prepare(where)
    own_folder.load_or_create(where, "first")
    log_record.made(where.scheduler, 0)
    broker_address.init(where, HERE, None, "")
    assert not replicated(where)


def test_a_level_without_the_word_is_not_given_it(where: StateFolder) -> None:
    state_folder.prepare(where)
    (where.root / "config.toml").write_text("[upgrade]\nnewest_level = 3\n")
    (where.root / "config.toml").chmod(0o600)
    broker_address.init(where, HERE, None, "first")
    assert not replicated(where)


def test_a_server_that_others_joined_stays_where_it_is(where: StateFolder, tmp_path: Path) -> None:
    broker_address.init(where, HERE, None, "first")
    token = token_issue.issue(where, 3600, NOW, server=True)
    assert state_folder.load(where).may_grow
    assert not broker_address.init(where, HERE, None, "").servers, "nobody knows it yet"
    token = token_issue.issue(where, 3600, NOW, server=True)
    registrar = Registrar(where, state_folder.load(where))
    host = new_server(tmp_path, "second", "127.0.0.3")
    assert registrar.answer(host.request(token, b"n" * join_messages.NONCE_BYTES), NOW)
    with pytest.raises(Refused, match="servers have joined already"):
        broker_address.init(where, context.LOOPBACK, None, "")
