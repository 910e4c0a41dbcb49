# SPDX-License-Identifier: Apache-2.0
"""The folder of a node that joined: what starts on it, and which verbs it refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from stoker.agent.commands import doctor, user_accounts
from stoker.agent.join import token_issue
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import broker_address, broker_setup, own_folder, startup
from stoker.agent.supervise.start_options import StartOptions
from stoker.mesh.connection.context import LOOPBACK
from stoker.mesh.identity import identity
from stoker.native.errors import Corrupt, Refused
from tests.fakes import pinned

URL = "tls://127.0.0.2:21234"


@pytest.fixture
def where(tmp_path: Path) -> StateFolder:
    made = state_folder.locate(tmp_path / "state")
    state_folder.prepare(made)
    identity.create(made.key("agent"))
    pinned.pair(made.keys)
    made.broker_key.unlink()
    scheduler = identity.of_raw(b"s" * 32).public
    record = ClusterFile(
        "c", "second", "", schedulers=(scheduler,), brokers=(URL,), address=LOOPBACK, joined=True
    )
    state_folder.write_cluster(made, record)
    state_folder.seal_format(made)
    return made


def names(where: StateFolder) -> set[str]:
    return {str(p.relative_to(where.root)) for p in where.root.rglob("*") if p.is_file()}


def test_a_start_makes_no_keys_users_or_configuration(where: StateFolder) -> None:
    before = names(where)
    cluster = own_folder.load_or_create(where)
    assert (cluster.node, cluster.url) == ("second", URL)
    assert not cluster.takes_hosts
    assert cluster.scheduler_keys == (identity.of_raw(b"s" * 32).public,)
    assert names(where) == before


@pytest.mark.parametrize("lost", ["keys/agent.nk", "keys/broker.crt", "cluster.json"])
def test_a_lost_file_is_named(where: StateFolder, lost: str) -> None:
    (where.root / lost).unlink()
    with pytest.raises((Corrupt, state_folder.NotFound), match=lost.rpartition("/")[2]):
        own_folder.load_or_create(where)


def test_a_lost_folder_is_named(where: StateFolder) -> None:
    shutil.rmtree(where.agent)
    with pytest.raises(Corrupt, match="agent is missing"):
        own_folder.load_or_create(where)


@pytest.mark.parametrize(
    ("options", "said"),
    [(StartOptions(port=21999), "--port"), (StartOptions(root_jobs_as="root"), "--root-jobs-as")],
)
def test_options_of_the_first_node_are_refused(
    where: StateFolder, options: StartOptions, said: str
) -> None:
    options = StartOptions(str(where.root), port=options.port, root_jobs_as=options.root_jobs_as)
    with pytest.raises(Refused, match=f"{said} is for the node where the cluster was made"):
        startup.start(options)


def test_users_and_tokens_belong_to_the_first_node(where: StateFolder) -> None:
    elsewhere = "joined a cluster that was made elsewhere"
    with pytest.raises(Refused, match=elsewhere):
        user_accounts.add(where, "alice", "nobody", None)
    with pytest.raises(Refused, match=elsewhere):
        user_accounts.listed(where)
    with pytest.raises(Refused, match=elsewhere):
        token_issue.issue(where, 3600, 1_000_000)
    with pytest.raises(Refused, match="no broker here"):
        broker_address.init(where, "127.0.0.2", None, "")


def test_doctor_accepts_it(where: StateFolder) -> None:
    checks = {check.id: check for check in doctor.report(where)}
    assert checks["state.folder"].status == "PASS"
    assert URL in checks["broker.port"].text


def test_a_node_that_took_users_of_other_hosts_alone_gets_what_joins_need(tmp_path: Path) -> None:
    made = state_folder.locate(tmp_path / "state")
    broker_address.init(made, "127.0.0.2", None, "first")
    raw = msgspec.json.decode(made.cluster.read_bytes())
    for name in ("joined", "#blake2b"):
        raw.pop(name)
    made.cluster.write_bytes(msgspec.json.encode(raw))
    for path in (made.joins, made.key("guest"), made.key("registrar")):
        path.unlink()
    assert own_folder.load_or_create(made).takes_hosts
    assert broker_setup.joined_nodes(made) == {}
    assert made.key("registrar").exists()
