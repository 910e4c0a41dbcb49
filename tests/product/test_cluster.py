# SPDX-License-Identifier: Apache-2.0
"""The configuration in the log, on a running node: limits, users and a genesis that differs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.agent.state.state_folder import read_json
from stoker.mesh.broker import users
from stoker.mesh.broker.users import User
from stoker.mesh.identity import identity, sealed_json
from stoker.mesh.log.genesis import Genesis

pytestmark = pytest.mark.needs_root


def cluster(node: LiveNode) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.stoker("cluster", "--json").stdout)
    return found


def small(node: LiveNode) -> None:
    node.root.mkdir(mode=0o700)
    (node.root / "config.toml").write_text("[limits]\nqueues = 1\n")


def test_limits_are_in_the_log_and_change_there() -> None:
    with live_node(prepare=small) as node:
        node.stoker("queue", "set", "one")
        refused = node.stoker("queue", "set", "two", check=False)
        assert refused.returncode != 0 and b"two" not in node.stoker("queue", "list").stdout
        assert b"limits: done" in node.stoker("cluster", "limits", "queues=2").stdout
        assert b"nothing to change" in node.stoker("cluster", "limits", "queues=2").stdout
        node.stoker("queue", "set", "two")
        node.wait_for_new("scheduler", node.kill("scheduler"))
        wait_until(
            lambda: cluster(node)["limits"]["queues"] == 2, "the next scheduler read the log"
        )
        assert b"two" in node.stoker("queue", "list").stdout
        too_small = node.stoker("cluster", "limits", "queues=1", check=False)
        assert b"does not fit" in too_small.stderr
        assert cluster(node)["limits"]["queues"] == 2


def test_a_user_is_let_in_and_out_by_entries_of_the_log(tmp_path: Path) -> None:
    with live_node() as node:
        before = cluster(node)["users"]
        table = users.load(node.state.users)
        key = identity.create(tmp_path / "eve.nk").public
        users.save(node.state.users, {**table, "eve": User(public_key=key, uid=1000, gid=1000)})
        wait_until(lambda: cluster(node)["users"] == before + 1, "eve has an account")
        users.save(node.state.users, table)
        wait_until(lambda: cluster(node)["users"] == before, "eve has none any more")


def test_a_genesis_that_differs_is_refused_and_nothing_is_changed() -> None:
    with live_node() as node:
        job = node.run("true").job
        tail = cluster(node)["seq"]
        node.stoker("down")
        path = node.state.genesis
        kept = path.read_bytes()
        found = read_json(path, Genesis)
        other = found.limits._replace(nodes=found.limits.nodes + 1)
        path.write_bytes(sealed_json.encode(msgspec.structs.replace(found, limits=other)))
        refused = node.stoker("up", check=False)
        assert refused.returncode == 3
        assert b"genesis" in refused.stderr
        path.write_bytes(kept)
        node.stoker("up")
        assert cluster(node)["seq"] >= tail
        assert node.wait(job).state == "succeeded"


def test_a_damaged_genesis_is_named_before_anything_starts() -> None:
    with live_node() as node:
        node.stoker("down")
        path = node.state.genesis
        copy = path.with_name("copy")
        shutil.copy(path, copy)
        path.write_bytes(copy.read_bytes().replace(b'"limits"', b'"limitz"'))
        refused = node.stoker("up", check=False)
        copy.replace(path)
        assert refused.returncode == 3 and b"genesis.json" in refused.stderr
        node.stoker("up")
