# SPDX-License-Identifier: Apache-2.0
"""The registrar on a real state folder without a broker: what it stores, tells and refuses."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from stoker.agent.join import key_revocation, token_issue
from stoker.agent.join.registrar import Registrar, RegistrarDaemon
from stoker.agent.state import gossip_files, joins, state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import broker_address, broker_setup, own_users
from stoker.mesh.broker import revoked_keys
from stoker.mesh.gossip import gossip_access
from stoker.mesh.gossip.gossip_access import GossipAccess
from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.identity.join_token import JoinToken
from stoker.mesh.wire import join_messages
from stoker.mesh.wire.join_messages import JoinReply, JoinRequest
from stoker.native import durable_file
from stoker.native.errors import Corrupt, Denied

HERE = "127.0.0.2"
NOW = 1_000_000
NONCE = b"n" * join_messages.NONCE_BYTES
AGENT, OTHER = (identity.of_raw(bytes([number]) * 32) for number in (1, 2))


@pytest.fixture
def where() -> Iterator[StateFolder]:
    with tempfile.TemporaryDirectory(prefix="stoker-test-") as folder:
        made = state_folder.locate(Path(folder, "state"))
        broker_address.init(made, HERE, None, "first")
        yield made


@pytest.fixture
def registrar(where: StateFolder) -> Registrar:
    return Registrar(where, state_folder.load(where))


@pytest.fixture
def token(where: StateFolder) -> JoinToken:
    return token_issue.issue(where, 3600, NOW)


def sealed(token: JoinToken, agent: Identity = AGENT, name: str = "second") -> bytes:
    public = (token.key.public, agent.public)
    request = JoinRequest(join_messages.FORMAT, public[0], name, public[1], NONCE)
    return join_messages.seal(request, token.key, agent)


def answer(registrar: Registrar, data: bytes, now_s: int = NOW) -> JoinReply:
    found = registrar.answer(data, now_s)
    assert found is not None
    return join_messages.open_reply(found, NONCE)


def broker_text(where: StateFolder) -> str:
    return (where.nats / "nats-server.conf").read_text()


def test_a_node_is_stored_and_the_broker_knows_its_key(
    where: StateFolder, registrar: Registrar, token: JoinToken
) -> None:
    cluster = state_folder.load(where)
    found = answer(registrar, sealed(token))
    assert (found.node, found.cluster, found.refused) == ("second", cluster.cluster, "")
    assert found.schedulers == cluster.scheduler_keys
    assert found.brokers == (cluster.url,)
    assert joins.load(where.joins).nodes["second"].public_key == AGENT.public
    registrar.tell_broker()
    assert broker_text(where).count(AGENT.public) == 1
    assert '"stoker.v1.node.second.hello"' in broker_text(where)
    assert answer(registrar, sealed(token)) == found
    assert registrar.counters == {"joined": 1, "repeated": 1}


def test_a_name_that_is_taken_is_numbered(
    where: StateFolder, registrar: Registrar, token: JoinToken
) -> None:
    assert answer(registrar, sealed(token, name="first")).node == "first-2"


def test_what_is_refused_is_counted_logged_and_changes_nothing(
    where: StateFolder, registrar: Registrar, token: JoinToken
) -> None:
    scheduler = identity.load(where.key("scheduler"))
    user = identity.load(where.key("admin"))
    answer(registrar, sealed(token))
    registrar.tell_broker()
    before = where.joins.read_bytes(), broker_text(where)
    late = token_issue.issue(where, 60, NOW)
    foreign = JoinToken(HERE, 1, b"f" * 32, token.guest, OTHER)
    stored = where.joins.read_bytes()
    with capture_logs() as logs:
        assert "has joined with this token" in answer(registrar, sealed(token, OTHER)).refused
        assert "expired 40 s ago" in answer(registrar, sealed(late, OTHER), NOW + 100).refused
        assert "did not make this token" in answer(registrar, sealed(foreign, AGENT)).refused
        for taken in (scheduler, user, AGENT):
            assert "somebody else" in answer(registrar, sealed(late, taken)).refused
        assert "a node's name" in answer(registrar, sealed(late, OTHER, "../x")).refused
        for junk in (b"", b"\xc1", b"x" * 5000, sealed(token)[:-1]):
            assert registrar.answer(junk, NOW) is None
        whole = sealed(late, OTHER)
        forged = whole[:-1] + bytes([whole[-1] ^ 1])
        assert registrar.answer(forged, NOW) is None
    assert where.joins.read_bytes() == stored != before[0]
    assert not registrar.untold
    assert broker_text(where) == before[1]
    assert registrar.counters == {
        "joined": 1, "used": 1, "expired": 1, "unknown": 1, "key_taken": 3, "bad_name": 1,
        "malformed": 4, "forged": 1,
    }  # fmt: skip
    assert len(logs) == sum(registrar.counters.values()) - 1
    for secret in (token, late):
        assert secret.text not in str(logs) and secret.key.seed not in str(logs)


def test_a_request_that_the_disk_does_not_take_uses_nothing_up(
    where: StateFolder, registrar: Registrar, token: JoinToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes, mode: int = 0o600) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as broken:
        broken.setattr(durable_file, "replace", full)
        assert "cannot take nodes now" in answer(registrar, sealed(token)).refused
    assert joins.load(where.joins).nodes == {}
    assert registrar.counters == {"failed": 1}
    assert answer(registrar, sealed(token)).node == "second"


def test_a_registrar_that_died_before_it_told_the_broker_is_completed_by_the_next(
    where: StateFolder, registrar: Registrar, token: JoinToken
) -> None:
    registrar.tell_broker()
    answer(registrar, sealed(token))
    assert registrar.untold
    assert AGENT.public not in broker_text(where)
    following = Registrar(where, state_folder.load(where))
    assert following.untold
    following.tell_broker()
    assert broker_text(where).count(AGENT.public) == 1
    assert answer(following, sealed(token)).node == "second"
    assert following.counters == {"repeated": 1} and not following.untold


def test_a_lost_record_takes_no_used_token_again(
    where: StateFolder, registrar: Registrar, token: JoinToken
) -> None:
    answer(registrar, sealed(token))
    where.joins.unlink()
    assert "cannot take nodes now" in answer(registrar, sealed(token, OTHER)).refused
    with pytest.raises(Corrupt, match=r"joins\.json is missing"):
        broker_setup.text(where, state_folder.load(where), own_users.load(where))


def test_a_node_changes_its_key_and_both_count_until_it_uses_the_new_one(
    where: StateFolder, registrar: Registrar, token: JoinToken
) -> None:
    answer(registrar, sealed(token))

    def rotate(present: Identity, fresh: Identity) -> JoinReply:
        names = (present.public, "second", fresh.public)
        request = JoinRequest(join_messages.FORMAT, *names, NONCE)
        data = join_messages.seal(request, present, fresh)
        found = registrar.answer(data, NOW + 5, "second")
        assert found is not None
        return join_messages.open_reply(found, NONCE)

    assert rotate(AGENT, OTHER).refused == ""
    registrar.tell_broker()
    for key in (AGENT, OTHER):
        assert broker_text(where).count(key.public) == 1
    assert broker_text(where).count('"stoker.v1.node.second.hello"') == 2
    rotate(OTHER, OTHER)
    registrar.tell_broker()
    assert AGENT.public not in broker_text(where) and OTHER.public in broker_text(where)
    assert revoked_keys.load(where.revoked)[AGENT.public].revoked_s == NOW + 5
    assert "is another one" in rotate(AGENT, AGENT).refused
    assert registrar.counters == {"joined": 1, "rotated": 2, "rotation_unknown": 1}


def test_a_rotation_that_its_present_key_did_not_sign_is_forged(
    where: StateFolder, registrar: Registrar, token: JoinToken
) -> None:
    answer(registrar, sealed(token))
    request = JoinRequest(join_messages.FORMAT, AGENT.public, "second", OTHER.public, NONCE)
    assert registrar.answer(join_messages.seal(request, OTHER, OTHER), NOW, "second") is None
    assert registrar.counters["forged"] == 1
    assert joins.load(where.joins).nodes["second"].public_key == AGENT.public


def test_a_node_gets_the_gossip_keys_sealed_to_its_own_key(
    where: StateFolder, registrar: Registrar, token: JoinToken
) -> None:
    assert answer(registrar, sealed(token)).gossip == b"", "there is no mesh yet"
    gossip_files.make(where)
    found = answer(registrar, sealed(token))
    assert gossip_access.unseal(found.gossip, AGENT) == gossip_files.load(where)
    with pytest.raises(Denied):
        gossip_access.unseal(found.gossip, OTHER)


def test_a_node_gets_the_present_gossip_keys_again_until_it_is_revoked(
    where: StateFolder, registrar: Registrar, token: JoinToken
) -> None:
    gossip_files.make(where)
    answer(registrar, sealed(token))
    request = JoinRequest(join_messages.FORMAT, AGENT.public, "second", AGENT.public, NONCE)
    data = join_messages.seal(request, AGENT, AGENT)

    def asked() -> JoinReply:
        found = registrar.answer(data, NOW, "second")
        assert found is not None
        return join_messages.open_reply(found, NONCE)

    other = GossipAccess((gossip_access.new_key(),))
    gossip_files.store(where, other)
    assert gossip_access.unseal(asked().gossip, AGENT) == other
    key_revocation.revoke(where, key_revocation.holder(where, "second"), "lost", NOW)
    refused = asked()
    assert refused.refused and refused.gossip == b""


async def test_a_flood_of_errors_of_the_connection_is_counted_and_told_once(
    where: StateFolder,
) -> None:
    daemon = RegistrarDaemon(where)
    with capture_logs() as lines:
        for _ in range(1000):
            await daemon._failed(OSError("slow consumer, messages dropped"))
    assert daemon._registrar.counters["connection_errors"] == 1000
    assert [line["error"] for line in lines] == ["slow consumer, messages dropped"]
