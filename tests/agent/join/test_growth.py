# SPDX-License-Identifier: Apache-2.0
"""A server enters the tables of a cluster that runs and leaves them, without a network."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from fakes.new_server import NewServer, new_server

from stoker.agent.join import foundation, growth, key_revocation
from stoker.agent.join.registrar import Registrar
from stoker.agent.state import joins, state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import startup
from stoker.mesh.broker import users
from stoker.mesh.wire.cluster_server import ADMIN
from stoker.native.errors import BadRequest, NotFound, Refused
from tests.agent.join.test_foundation import NOW, Founders

NAMES = ("first", "second", "third")


@pytest.fixture
def founders() -> Iterator[Founders]:
    """Three servers that are founded, each with the tables."""
    with tempfile.TemporaryDirectory(prefix="stoker-test-") as folder:
        made = Founders(Path(folder))
        for number, name in enumerate(NAMES[1:], 3):
            made.join(name, number)
        assert made.registrar.found_if_due()
        for host in made.joined:
            copy(made, host)
        yield made


def copy(founders: Founders, host: NewServer) -> ClusterFile:
    """Have a server take the first one's tables, as its copier does; return its record."""
    foundation.take(host.where, state_folder.load(host.where), founders.tables())
    return state_folder.load(host.where)


def servers(where: StateFolder) -> list[str]:
    return [each.node for each in state_folder.load(where).servers]


def grown(founders: Founders, name: str = "fourth", number: int = 5) -> NewServer:
    host = founders.join(name, number)
    founders.registrar.grow_if_due()
    return host


def broker_text(where: StateFolder) -> str:
    return (where.nats / "nats-server.conf").read_text()


def test_a_fourth_server_is_in_the_tables_of_all(founders: Founders) -> None:
    genesis = founders.where.genesis.read_bytes()
    fourth = grown(founders)
    for host in founders.joined:
        copy(founders, host)
    folders = [founders.where, *(host.where for host in founders.joined)]
    for where in folders:
        cluster = startup.load_or_create(where)
        assert servers(where) == [*NAMES, "fourth"] and not cluster.waits
        assert cluster.scheduler_keys[3] == fourth.record.scheduler
        assert broker_text(where).count("nats-route://") == 4
        assert where.genesis.read_bytes() == genesis, "who founded it does not change"
    for path in ("users.json", "keys/brokers.crt", "keys/routes.crt"):
        assert len({(where.root / path).read_bytes() for where in folders}) == 1, path
    accounts = {broker_text(where).partition("accounts {")[2] for where in folders}
    assert len(accounts) == 1 and "admin-fourth" in startup.load_users(fourth.where)


def test_what_an_operator_changed_of_users_stays(founders: Founders) -> None:
    table = startup.load_users(founders.where)
    moved = msgspec.structs.replace(table["admin-second"], unix_user="daemon", uid=None, gid=None)
    users.save(founders.where.users, {**table, "admin-second": moved})
    grown(founders)
    after = startup.load_users(founders.where)
    assert after["admin-second"] == moved
    assert after["admin-fourth"].unix_user == table[ADMIN].unix_user


def test_until_the_tables_have_it_a_new_server_waits(founders: Founders) -> None:
    fourth = founders.join("fourth", 5)
    assert copy(founders, fourth).waits
    founders.registrar.grow_if_due()
    assert not copy(founders, fourth).waits


def test_growth_that_was_interrupted_is_repeated(founders: Founders) -> None:
    kept = founders.where.cluster.read_bytes()
    grown(founders)
    founders.where.cluster.write_bytes(kept)  # the last write was lost
    again = Registrar(founders.where, state_folder.load(founders.where))
    again.grow_if_due()
    assert servers(founders.where) == [*NAMES, "fourth"]
    before = founders.where.cluster.stat()
    again.grow_if_due()
    assert founders.where.cluster.stat() == before and again.counters == {"grown": 1}


def test_five_servers_are_the_most(founders: Founders) -> None:
    spare = founders.token()
    grown(founders)
    assert growth.room(founders.where, state_folder.load(founders.where)) == 1
    founders.join("fifth", 6)
    with pytest.raises(Refused, match="has 5 servers, which is the most"):
        founders.token()
    late = new_server(founders.folder, "late", "127.0.0.7")
    assert "all the servers that it may have" in founders.request_of(late, spare).refused
    founders.registrar.grow_if_due()
    assert servers(founders.where) == [*NAMES, "fourth", "fifth"]


def test_a_server_that_does_not_count_gives_its_place_back(founders: Founders) -> None:
    fourth = grown(founders)
    second = founders.joined[0]
    copy(founders, second)
    roster = {each.record.scheduler for each in founders.joined[:2]}
    holder = key_revocation.holder(founders.where, "fourth", counting=lambda: roster)
    key_revocation.revoke(founders.where, holder, "its host died", NOW)
    assert servers(founders.where) == list(NAMES)
    copy(founders, second)
    for where in (founders.where, second.where):
        assert servers(where) == list(NAMES)
        text = broker_text(where)
        assert not any(key in text for key in fourth.record.keys)
        assert fourth.record.route not in text
        assert "admin-fourth" not in startup.load_users(where)
    founders.registrar.grow_if_due()
    assert servers(founders.where) == list(NAMES), "nobody takes it in again"
    assert grown(founders, "fifth", 5).record.address == fourth.record.address


def test_a_revocation_that_was_interrupted_is_repeated(founders: Founders) -> None:
    grown(founders)
    kept = founders.where.cluster.read_bytes()
    for _ in range(2):
        holder = key_revocation.holder(founders.where, "fourth", counting=lambda: ())
        key_revocation.revoke(founders.where, holder, "its host died", NOW)
        assert "fourth" not in joins.load(founders.where.joins).nodes
        assert servers(founders.where) == list(NAMES)
        founders.where.cluster.write_bytes(kept)  # the last write was lost
    founders.where.cluster.write_bytes(kept)
    key_revocation.revoke(founders.where, holder, "its host died", NOW)
    with pytest.raises(NotFound):
        key_revocation.holder(founders.where, "fourth")


def test_an_old_copy_of_the_first_servers_folder_takes_nobody_out(founders: Founders) -> None:
    old = founders.tables()
    grown(founders)
    second = founders.joined[0]
    copy(founders, second)
    with pytest.raises(BadRequest, match="does not know server fourth") as refused:
        foundation.take(second.where, state_folder.load(second.where), old)
    assert "older than that server" in refused.value.hint
    assert servers(second.where) == [*NAMES, "fourth"]
