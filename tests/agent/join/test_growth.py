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
from stoker.agent.join import registrar as registrar_module
from stoker.agent.join.registrar import Registrar
from stoker.agent.state import joins, state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import own_folder, own_users
from stoker.mesh.broker import users
from stoker.mesh.identity import sealed_json
from stoker.mesh.log import kept_log
from stoker.mesh.log.genesis import Genesis
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
        cluster = own_folder.load_or_create(where)
        assert servers(where) == [*NAMES, "fourth"] and not cluster.waits
        assert cluster.scheduler_keys[3] == fourth.record.scheduler
        assert broker_text(where).count("nats-route://") == 4
        assert where.genesis.read_bytes() == genesis, "who founded it does not change"
    for path in ("users.json", "keys/brokers.crt", "keys/routes.crt"):
        assert len({(where.root / path).read_bytes() for where in folders}) == 1, path
    accounts = {broker_text(where).partition("accounts {")[2] for where in folders}
    assert len(accounts) == 1 and "admin-fourth" in own_users.load(fourth.where)


def test_what_an_operator_changed_of_users_stays(founders: Founders) -> None:
    table = own_users.load(founders.where)
    moved = msgspec.structs.replace(table["admin-second"], unix_user="daemon", uid=None, gid=None)
    users.save(founders.where.users, {**table, "admin-second": moved})
    grown(founders)
    after = own_users.load(founders.where)
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
        assert "admin-fourth" not in own_users.load(where)
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


@pytest.fixture
def only() -> Iterator[Founders]:
    """One server whose cluster others may enter."""
    with tempfile.TemporaryDirectory(prefix="stoker-test-") as folder:
        yield Founders(Path(folder), 1)


def running(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """The servers whose brokers answer from now on."""
    monkeypatch.setattr(growth, "_answers", lambda server: server.node in names)
    monkeypatch.setattr(registrar_module, "ASK_S", -1.0)


def test_an_only_server_stays_as_it_is_until_the_brokers_of_the_others_run(
    only: Founders, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, genesis = only.where, only.where.genesis.read_bytes()
    second = only.join("second", 3)
    running(monkeypatch, "second")
    assert not only.registrar.found_if_due() and copy(only, second).waits
    third = only.join("third", 4)
    kept = [where.cluster.read_bytes(), where.users.read_bytes()]
    for host in (second, third):
        assert servers(copy(only, host) and host.where) == [*NAMES]
        assert host.where.genesis.read_bytes() == genesis, "of one scheduler, as it was founded"
    assert not only.registrar.found_if_due(), "the third one does not run"
    assert kept == [where.cluster.read_bytes(), where.users.read_bytes()]
    running(monkeypatch, "second", "third")
    assert only.registrar.found_if_due()
    assert servers(where) == [*NAMES] and where.genesis.read_bytes() == genesis
    assert broker_text(where).count("nats-route://") == 3
    for path in ("users.json", "keys/brokers.crt", "keys/routes.crt"):
        assert len({(w.root / path).read_bytes() for w in (where, second.where, third.where)}) == 1
    assert Registrar(where, state_folder.load(where)).found_if_due() is False, "it serves already"


def test_one_that_joined_an_only_server_and_never_ran_gives_its_place_back(
    only: Founders, monkeypatch: pytest.MonkeyPatch
) -> None:
    second, lost = only.join("second", 3), only.join("third", 4)
    copy(only, second)
    with pytest.raises(Refused, match="two servers have joined first"):
        only.token()
    key_revocation.revoke(only.where, key_revocation.holder(only.where, "third"), "lost", NOW)
    running(monkeypatch, "second", "third")
    assert not only.registrar.found_if_due()
    other = only.join("other", 5)
    assert servers(copy(only, second) and second.where) == ["first", "second", "other"]
    assert lost.record.agent not in broker_text(second.where)
    copy(only, other)
    running(monkeypatch, "second", "other")
    assert only.registrar.found_if_due()
    assert servers(only.where) == ["first", "second", "other"]


def test_a_cluster_of_other_rules_for_one_takes_no_server(only: Founders) -> None:
    genesis = sealed_json.decode(only.where.genesis.read_bytes(), Genesis)
    before = msgspec.structs.replace(genesis, replicated=False)
    only.where.genesis.write_bytes(sealed_json.encode(before))
    with pytest.raises(Refused, match="founded for one server alone") as caught:
        only.token()
    assert "--servers 3" in caught.value.hint and "jobs stopped" in caught.value.hint
    assert only.token(server=False).text, "nodes may join"
    assert not state_folder.load(only.where).may_grow


def has_grown(only: Founders, monkeypatch: pytest.MonkeyPatch) -> Registrar:
    """Two servers have joined an only one, whose processes begin again; return its registrar."""
    for number, name in enumerate(NAMES[1:], 3):
        only.join(name, number)
    running(monkeypatch, *NAMES[1:])
    assert only.registrar.found_if_due()
    return Registrar(only.where, state_folder.load(only.where))


def test_a_first_server_without_a_log_is_an_only_one_again_for_a_while(
    only: Founders, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = only.where
    before = own_users.load(where).keys()
    again = has_grown(only, monkeypatch)
    (where.nats / kept_log.NAME).mkdir()
    assert not again.found_if_due(), "the brokers have a minute to find each other"
    monkeypatch.setattr(registrar_module, "BACK_S", 0.0)
    assert again.found_if_due(), "its processes begin again"
    cluster = own_folder.load_or_create(where)
    assert cluster.may_grow and servers(where) == ["first"] and not cluster.brokers
    assert own_users.load(where).keys() == before
    assert "nats-route://" not in broker_text(where)
    assert len(growth.entering(where, cluster)) == 2, "those that joined stay joined"
    only.registrar = Registrar(where, cluster)
    assert not only.registrar.found_if_due(), "it does not try again at once"
    monkeypatch.setattr(growth, "AGAIN_S", 0.0)
    assert only.registrar.found_if_due()
    assert servers(where) == [*NAMES]


def test_a_first_server_whose_log_is_whole_stays_the_first_of_several(
    only: Founders, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = has_grown(only, monkeypatch)
    monkeypatch.setattr(registrar_module, "BACK_S", 0.0)
    assert not again.found_if_due() and servers(only.where) == [*NAMES]
    kept = only.where.cluster.read_bytes()
    assert growth.be_alone_again(only.where, state_folder.load(only.where)).several
    assert only.where.cluster.read_bytes() == kept


def test_being_alone_again_that_was_interrupted_is_repeated(
    only: Founders, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = has_grown(only, monkeypatch)
    (only.where.nats / kept_log.TAKEN).mkdir()  # the record was not written any more
    assert again.found_if_due() and servers(only.where) == ["first"]


def test_the_last_broker_beside_the_first_one_stays(
    only: Founders, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_grown(only, monkeypatch)
    only_first = {state_folder.load(only.where).servers[0].scheduler}

    def out(name: str) -> None:
        holder = key_revocation.holder(only.where, name, None, lambda: only_first)
        key_revocation.revoke(only.where, holder, "not needed", NOW)

    out("third")
    with pytest.raises(Refused, match="does not go on alone"):
        out("second")
    assert servers(only.where) == ["first", "second"]
