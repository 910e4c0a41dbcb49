# SPDX-License-Identifier: Apache-2.0
"""Keys are taken back on a real state folder without a broker: by name, and after a removal."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.agent.join import key_list, key_revocation
from stoker.agent.join.key_revocation import Holder
from stoker.agent.join.registrar import Registrar
from stoker.agent.state import joins, state_folder
from stoker.agent.state.joins import IssuedToken, JoinedNode
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import broker_address, broker_setup, own_users
from stoker.mesh.broker import revoked_keys, users
from stoker.mesh.broker.users import User
from stoker.mesh.identity import identity, sealed_json
from stoker.mesh.server.departures_file import DepartedNode, DepartedNodes
from stoker.native import durable_file
from stoker.native.errors import BadRequest, NotFound, Refused

NS = 1_000_000_000
AGENT, TOKEN, ALICE, OTHER = (identity.of_raw(bytes([n]) * 32).public for n in (1, 2, 3, 4))


@pytest.fixture
def where() -> Iterator[StateFolder]:
    """The folder of a node that hosts may join, with a node `second` and a user `alice`."""
    with tempfile.TemporaryDirectory(prefix="stoker-test-") as folder:
        made = state_folder.locate(Path(folder, "state"))
        broker_address.init(made, "127.0.0.2", None, "first")
        known = joins.load(made.joins)
        known = joins.Joins({**known.tokens, TOKEN: IssuedToken(10**10)}, known.nodes)
        joins.save(made.joins, joins.with_node(known, "second", JoinedNode(AGENT, TOKEN, 100)))
        table = own_users.load(made)
        users.save(made.users, {**table, "alice": User(public_key=ALICE, uid=1000, gid=1000)})
        yield made


def broker_text(where: StateFolder) -> str:
    table = own_users.load(where)
    return broker_setup.text(where, state_folder.load(where), table).decode()


def departed(where: StateFolder, *rows: DepartedNode) -> None:
    durable_file.replace(where.departures, sealed_json.encode(DepartedNodes(list(rows))))


def states(where: StateFolder) -> dict[str, str]:
    return {row.name: row.state for row in key_list.listed(where, {})}


def test_a_node_loses_key_name_and_token_at_once(where: StateFolder) -> None:
    assert AGENT in broker_text(where)
    holder = key_revocation.holder(where, "second")
    assert holder == Holder("node", "second", AGENT)
    assert key_revocation.revoke(where, holder, "stolen", 200) is False, "no broker runs"
    known = joins.load(where.joins)
    assert "second" not in known.nodes and TOKEN not in known.tokens
    assert revoked_keys.load(where.revoked)[AGENT].why == "stolen"
    assert AGENT not in broker_text(where) and ALICE in broker_text(where)
    assert AGENT not in (where.nats / "nats-server.conf").read_text()
    assert states(where)["second"] == "revoked" and states(where)["alice"] == "in force"


def test_a_node_that_changes_its_key_loses_both(where: StateFolder) -> None:
    joins.save(where.joins, joins.with_key(joins.load(where.joins), "second", OTHER, AGENT))
    rows = [row.key for row in key_list.listed(where, {}) if row.name == "second"]
    assert set(rows) == {AGENT, OTHER}
    key_revocation.revoke(where, key_revocation.holder(where, "second"), "stolen", 200)
    assert set(revoked_keys.load(where.revoked)) == {AGENT, OTHER}
    assert AGENT not in broker_text(where) and OTHER not in broker_text(where)


def test_a_user_loses_the_key_and_may_get_another(where: StateFolder) -> None:
    key_revocation.revoke(where, key_revocation.holder(where, "alice"), "left", 200)
    assert "alice" not in own_users.load(where)
    table = own_users.load(where)
    users.save(where.users, {**table, "alice": User(public_key=OTHER, uid=1000, gid=1000)})
    assert OTHER in broker_text(where) and ALICE not in broker_text(where)


def test_a_revoked_key_counts_nowhere_whatever_other_tables_say(where: StateFolder) -> None:
    """A revocation that was interrupted behind its first write is complete for the broker."""
    row = revoked_keys.RevokedKey("node", "second", 1, "stolen")
    revoked_keys.save(where.revoked, {AGENT: row, ALICE: row})
    assert "second" in joins.load(where.joins).nodes
    assert AGENT not in broker_text(where) and ALICE not in broker_text(where)
    assert states(where)["second"] == "revoked"
    taken = Registrar(where, state_folder.load(where))._in_use().keys
    assert {AGENT, ALICE} <= set(taken), "nobody joins with it again"


def test_who_cannot_be_named_is_refused(where: StateFolder) -> None:
    for name, error in (("nobody", NotFound), ("first", BadRequest), ("admin", BadRequest)):
        with pytest.raises(error):
            key_revocation.holder(where, name)
    table = own_users.load(where)
    users.save(where.users, {**table, "second": User(public_key=OTHER, uid=1, gid=1)})
    with pytest.raises(Refused, match="a node and a user are called second") as refused:
        key_revocation.holder(where, "second")
    assert "--kind" in refused.value.hint
    assert key_revocation.holder(where, "second", "user").key == OTHER


def test_a_removed_nodes_key_is_taken_back_once(where: StateFolder) -> None:
    assert key_revocation.settle_departures(where) == []
    departed(where, DepartedNode("second", AGENT, 150 * NS, "sold"))
    assert AGENT not in broker_text(where), "it counts no more as soon as the log says so"
    assert key_revocation.settle_departures(where) == ["second"]
    assert key_revocation.settle_departures(where) == []
    assert revoked_keys.load(where.revoked)[AGENT].why == "removed: sold"
    assert TOKEN not in joins.load(where.joins).tokens


def test_a_later_node_of_the_name_keeps_its_key(where: StateFolder) -> None:
    departed(where, DepartedNode("second", OTHER, 100 * NS, "sold"), DepartedNode("x", "", 1, ""))
    assert key_revocation.settle_departures(where) == []
    assert AGENT in broker_text(where)


def test_a_node_that_told_a_false_key_is_removed_by_its_name(where: StateFolder) -> None:
    departed(where, DepartedNode("second", OTHER, 101 * NS, "sold"))
    assert key_revocation.settle_departures(where) == ["second"]
    assert set(revoked_keys.load(where.revoked)) == {AGENT}


def test_the_registrar_counts_what_it_takes_back(where: StateFolder) -> None:
    registrar = Registrar(where, state_folder.load(where))
    registrar.untold = False
    registrar.settle_departures()
    assert not registrar.untold and not registrar.counters
    departed(where, DepartedNode("second", AGENT, 150 * NS, "sold"))
    registrar.settle_departures()
    assert registrar.untold and registrar.counters == {"removed": 1}


def test_the_list_shows_times_that_are_known_and_no_secret(where: StateFolder) -> None:
    rows = {row.name: row for row in key_list.listed(where, {"second": 7 * NS})}
    assert rows.keys() >= {"first", "second", "alice", "admin", "scheduler", "registrar", "guest"}
    second = rows["second"]
    assert (second.since_ns, second.seen_ns, second.kind) == (100 * NS, 7 * NS, "node")
    assert rows["alice"].since_ns is None and rows["alice"].seen_ns is None
    text = "\n".join(key_list.lines(list(rows.values())))
    assert text.splitlines()[0].split()[:3] == ["NAME", "KIND", "STATE"]
    for path in where.keys.glob("*.nk"):
        assert path.read_text().strip() not in text
