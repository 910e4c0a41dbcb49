# SPDX-License-Identifier: Apache-2.0
"""A cluster of three servers is founded in their folders, without a network."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from fakes.new_server import NewServer, new_server

from stoker.agent.join import foundation, key_revocation, token_issue
from stoker.agent.join.registrar import Registrar
from stoker.agent.state import joins, state_folder
from stoker.agent.state.gossip_files import SERF
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import (
    broker_address,
    broker_setup,
    own_folder,
    own_users,
    process_table,
)
from stoker.mesh.broker import users
from stoker.mesh.identity import identity, sealed_json
from stoker.mesh.identity.join_token import JoinToken
from stoker.mesh.log import log_record
from stoker.mesh.log.feature_level import BUILD, FORMATS
from stoker.mesh.log.genesis import Genesis
from stoker.mesh.wire import join_messages, server_tables
from stoker.mesh.wire.join_messages import JoinReply
from stoker.mesh.wire.server_tables import TablesRequest
from stoker.native.errors import BadRequest, Refused

HERE = "127.0.0.2"
NOW = 1_000_000
NONCE = b"n" * join_messages.NONCE_BYTES


class Founders:
    """The first server's folder and registrar, and hosts that join it."""

    def __init__(self, folder: Path, servers: int = 3) -> None:
        self.folder = folder
        self.where = state_folder.locate(folder / "first")
        broker_address.init(self.where, HERE, None, "first", servers)
        self.registrar = Registrar(self.where, state_folder.load(self.where))
        self.joined: list[NewServer] = []

    def token(self, life_s: int = 3600, *, server: bool = True) -> JoinToken:
        return token_issue.issue(self.where, life_s, NOW, server=server)

    def request_of(self, host: NewServer, token: JoinToken, now_s: int = NOW) -> JoinReply:
        data = self.registrar.answer(host.request(token, NONCE), now_s)
        assert data is not None
        return join_messages.open_reply(data, NONCE)

    def join(self, name: str, number: int) -> NewServer:
        host = new_server(self.folder, name, f"127.0.0.{number}")
        host.join(self.request_of(host, self.token()))
        self.joined.append(host)
        return host

    def tables(self) -> server_tables.ServerTables:
        request = TablesRequest(server_tables.FORMAT, NONCE)
        sealed = self.registrar.tables(server_tables.encode_request(request))
        assert sealed is not None
        key = identity.load(self.where.key("registrar")).verifier
        found = server_tables.open_answer(sealed, NONCE, key)
        assert found is not None
        return found


@pytest.fixture
def founders() -> Iterator[Founders]:
    with tempfile.TemporaryDirectory(prefix="stoker-test-") as folder:
        yield Founders(Path(folder))


def names(where: StateFolder) -> list[str]:
    table = process_table.programs(where, state_folder.load(where), allow_root=False)
    return [program.spec.name for program in table]


def test_until_all_are_there_servers_wait(founders: Founders) -> None:
    second = founders.join("second", 3)
    assert not founders.registrar.found_if_due()
    assert names(founders.where) == ["nats-server", "registrar"]
    assert names(second.where) == ["copier"]
    waiting = state_folder.load(second.where)
    assert foundation.take(second.where, waiting, founders.tables()) == waiting
    assert own_folder.load_or_create(second.where) == waiting
    text = broker_setup.text(
        founders.where, state_folder.load(founders.where), own_users.load(founders.where)
    )
    assert second.record.registrar.encode() in text and b"cluster {" not in text


def test_the_last_one_founds_the_cluster_and_all_have_the_same(founders: Founders) -> None:
    others = [founders.join("second", 3), founders.join("third", 4)]
    assert founders.registrar.found_if_due()
    for host in others:
        foundation.take(host.where, state_folder.load(host.where), founders.tables())
    folders = [founders.where, *(host.where for host in others)]
    for path in ("genesis.json", "users.json", "keys/brokers.crt", "keys/routes.crt"):
        assert len({(where.root / path).read_bytes() for where in folders}) == 1, path
    genesis = sealed_json.decode(founders.where.genesis.read_bytes(), Genesis)
    keys = [identity.load(where.key("scheduler")).public for where in folders]
    assert [each.public_key for each in genesis.schedulers] == keys
    assert {"admin", "admin-second", "admin-third"} <= genesis.accounts.keys()
    for where in folders:
        cluster = own_folder.load_or_create(where)
        assert cluster.scheduler_keys == tuple(keys) and len(cluster.brokers) == 2
        text = broker_setup.text(where, cluster, own_users.load(where)).decode()
        assert text.count("nats-route://") == 3 and f'listen: "{cluster.own_server.route}"' in text
        for name in ("first", "second", "third"):
            assert f'"stoker.v1.node.{name}.hello"' in text
        assert len(set(names(where)) - {SERF}) == 6
    accounts = [
        broker_setup.text(where, state_folder.load(where), own_users.load(where))
        .decode()
        .partition("accounts {")[2]
        for where in folders
    ]
    assert len(set(accounts)) == 1, "all brokers know the same accounts"


@pytest.mark.parametrize("pinned", [None, 1])
def test_a_cluster_begins_with_the_newest_level_of_the_server_that_founds_it(
    founders: Founders, pinned: int | None
) -> None:
    if pinned is not None:
        settings = founders.where.root / "config.toml"
        settings.write_text(f"[upgrade]\nnewest_level = {pinned}\n")
    for number, name in enumerate(("second", "third"), 3):
        founders.join(name, number)
    assert founders.registrar.found_if_due()
    genesis = sealed_json.decode(founders.where.genesis.read_bytes(), Genesis)
    level = pinned or BUILD.newest
    assert (genesis.level, genesis.formats) == (level, FORMATS[level])


def test_a_founding_that_was_interrupted_is_repeated(founders: Founders) -> None:
    founders.join("second", 3)
    founders.join("third", 4)
    kept = founders.where.cluster.read_bytes()
    assert founders.registrar.found_if_due()
    genesis = founders.where.genesis.read_bytes()
    founders.where.cluster.write_bytes(kept)  # the last write was lost
    again = Registrar(founders.where, state_folder.load(founders.where))
    assert again.found_if_due()
    assert founders.where.genesis.read_bytes() == genesis
    assert not Registrar(founders.where, state_folder.load(founders.where)).found_if_due()


def test_later_changes_reach_the_others_and_tokens_do_not(founders: Founders) -> None:
    second, _ = founders.join("second", 3), founders.join("third", 4)
    founders.registrar.found_if_due()
    foundation.take(second.where, state_folder.load(second.where), founders.tables())
    cluster = state_folder.load(second.where)
    founders.token(server=False)
    table = own_users.load(founders.where)
    far = identity.of_raw(b"f" * 32).public
    users.save(founders.where.users, {**table, "far": users.User(public_key=far)})
    assert foundation.take(second.where, cluster, founders.tables()) == cluster
    assert own_users.load(second.where)["far"].public_key == far
    assert joins.load(second.where.joins).tokens == {}
    holder = key_revocation.holder(founders.where, "far", "user")
    key_revocation.revoke(founders.where, holder, "gone", NOW)
    foundation.take(second.where, cluster, founders.tables())
    assert far.encode() not in broker_setup.text(
        second.where, cluster, own_users.load(second.where)
    )


def test_tables_in_which_it_has_no_place_change_nothing(founders: Founders) -> None:
    second, _ = founders.join("second", 3), founders.join("third", 4)
    founders.registrar.found_if_due()
    cluster, given = state_folder.load(second.where), founders.tables()
    first, own, third = given.servers
    stranger = msgspec.structs.replace(own, scheduler=third.scheduler, admin=own.registrar)
    for servers in ((first, third, third), (first, stranger, third)):
        with pytest.raises(BadRequest):
            foundation.take(second.where, cluster, msgspec.structs.replace(given, servers=servers))
    assert not second.where.users.exists()
    foundation.take(second.where, cluster, given)
    with pytest.raises(BadRequest, match="third does not change"):
        moved = msgspec.structs.replace(third, port=third.port + 7)
        other = msgspec.structs.replace(given, servers=(first, own, moved))
        foundation.take(second.where, state_folder.load(second.where), other)


def test_who_may_not_become_a_server_is_told_why(founders: Founders) -> None:
    second = founders.join("second", 3)
    host = new_server(founders.folder, "late", "127.0.0.5")
    assert "makes a node of its host, not a server" in (
        founders.request_of(host, founders.token(server=False)).refused
    )
    assert "expired 40 s ago" in founders.request_of(host, founders.token(60), NOW + 100).refused
    same = new_server(founders.folder / "other", "second", "127.0.0.5")
    assert "is called second already" in founders.request_of(same, founders.token()).refused
    beside = NewServer(host.where, msgspec.structs.replace(host.record, port=second.record.port,
                       address=second.record.address))  # fmt: skip
    assert "listens at 127.0.0.3 already" in founders.request_of(beside, founders.token()).refused
    thief = NewServer(host.where, msgspec.structs.replace(host.record, admin=second.record.admin))
    assert "belongs to somebody else" in founders.request_of(thief, founders.token()).refused
    spare = founders.token()
    founders.join("third", 4)
    assert "all the servers that it may have" in founders.request_of(host, spare).refused
    counted = founders.registrar.counters
    assert counted["servers_full"] == 1 and counted["name_taken"] == 1
    assert len(joins.load(founders.where.joins).nodes) == 2


def test_a_lost_answer_is_given_again_after_the_founding(founders: Founders) -> None:
    founders.join("second", 3)
    third, token = new_server(founders.folder, "third", "127.0.0.4"), founders.token()
    once = founders.request_of(third, token)
    founders.registrar.found_if_due()
    again = founders.request_of(third, token)
    assert (again.node, again.first, again.wanted) == (once.node, once.first, once.wanted)


def test_a_server_is_neither_revoked_nor_moved(founders: Founders) -> None:
    founders.join("second", 3)
    with pytest.raises(Refused, match="servers have joined already"):
        broker_address.init(founders.where, HERE, None, "", None)
    founders.join("third", 4)
    founders.registrar.found_if_due()
    with pytest.raises(BadRequest, match="admin-third belongs to server third"):
        key_revocation.holder(founders.where, "admin-third")
    with pytest.raises(Refused, match="nobody says whether server second counts"):
        key_revocation.holder(founders.where, "second")
    there = {each.scheduler for each in state_folder.load(founders.where).servers}
    with pytest.raises(Refused, match="server of the cluster that counts"):
        key_revocation.holder(founders.where, "second", counting=lambda: there)
    with pytest.raises(Refused, match="founded"):
        broker_address.init(founders.where, HERE, None, "", None)


def test_a_server_that_never_came_gives_its_place_back(founders: Founders) -> None:
    founders.join("ghost", 3)
    holder = key_revocation.holder(founders.where, "ghost")
    assert not key_revocation.revoke(founders.where, holder, "its disk died", NOW)
    founders.join("second", 4)
    assert not founders.registrar.found_if_due()
    founders.join("third", 5)
    assert founders.registrar.found_if_due()
    names = [each.node for each in state_folder.load(founders.where).servers]
    assert names == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("address", "servers", "says"),
    [("127.0.0.1", 3, "name an address"), (HERE, 2, "1, 3 or 5 servers"), (HERE, 4, "not 4")],
)
def test_servers_that_no_cluster_can_have_are_refused(
    tmp_path: Path, address: str, servers: int, says: str
) -> None:
    where = state_folder.locate(tmp_path / "state")
    with pytest.raises(BadRequest, match=says):
        broker_address.init(where, address, None, "first", servers)
    assert not where.root.exists()


def test_a_node_that_has_a_log_does_not_wait_for_servers(tmp_path: Path) -> None:
    where = state_folder.locate(tmp_path / "state")
    before = broker_address.init(where, HERE, None, "first")
    assert broker_address.init(where, HERE, None, "", 3).waits, "it has never been up"
    assert not broker_address.init(where, HERE, None, "", 1).several
    log_record.made(where.scheduler, 0)
    with pytest.raises(Refused, match="has a log already"):
        broker_address.init(where, HERE, None, "", 3)
    assert state_folder.load(where).cluster == before.cluster
