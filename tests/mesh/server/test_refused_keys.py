# SPDX-License-Identifier: Apache-2.0
"""Refused connections, as nats-server tells of them: counted each, told once in a while."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from stoker.mesh.broker import revoked_keys
from stoker.mesh.broker.revoked_keys import RevokedKey
from stoker.mesh.identity import identity
from stoker.mesh.server import refused_keys
from stoker.mesh.server.refused_keys import TELL_NS, RefusedKeys

NODE, USER, OTHER = (identity.of_raw(bytes([number]) * 32).public for number in (1, 2, 3))


def advisory(key: str, host: str = "10.0.0.2") -> bytes:
    """The part of `$SYS.SERVER.<id>.CLIENT.AUTH.ERR` of nats-server 2.15.1 that matters."""
    client = {"host": host, "id": 10, "acc": "$G", "user": key, "kind": "Client"}
    kind = "io.nats.server.advisory.v1.client_disconnect"
    return json.dumps({"type": kind, "client": client, "reason": "Authentication Failure"}).encode()


@pytest.fixture
def counts() -> Counter[str]:
    return Counter()


@pytest.fixture
def refused(tmp_path: Path, counts: Counter[str]) -> RefusedKeys:
    path = tmp_path / "revoked.json"
    rows = {NODE: RevokedKey("node", "b", 1, "stolen"), USER: RevokedKey("user", "eve", 2, "left")}
    revoked_keys.save(path, rows)
    return RefusedKeys(path, lambda name: counts.update([name]))


def told(refused: RefusedKeys, now_ns: int) -> list[tuple[str, str]]:
    return [(row.node, row.reason) for row in refused.due(now_ns, 5)]


def test_each_is_counted_and_whose_it_was_is_told(
    refused: RefusedKeys, counts: Counter[str]
) -> None:
    refused.heard(advisory(NODE))
    assert told(refused, 1) == [("b", "the revoked key of node b was refused once, from 10.0.0.2")]
    for key in (NODE, NODE, USER, OTHER, ""):
        refused.heard(advisory(key, "10.0.0.3"))
    assert told(refused, 2) == [
        ("", "the revoked key of user eve was refused once, from 10.0.0.3"),
        ("", "a key that was not revoked was refused 2 times, last from 10.0.0.3"),
    ]
    assert told(refused, TELL_NS) == []
    assert told(refused, TELL_NS + 1) == [
        ("b", "the revoked key of node b was refused 2 times, last from 10.0.0.3")
    ]
    assert counts == {"connection_refused": 6, "revoked_key_refused": 4}


def test_a_key_that_was_given_out_again_is_nobodys_until_the_table_says_so(
    refused: RefusedKeys, tmp_path: Path
) -> None:
    path = tmp_path / "revoked.json"
    refused.heard(advisory(OTHER))
    rows = revoked_keys.load(path)
    revoked_keys.save(path, {**rows, OTHER: RevokedKey("node", "c", 3, "sold")})
    os.utime(path, ns=(1, 1))
    refused.heard(advisory(OTHER))
    assert [node for node, _ in told(refused, 1)] == ["", "c"]
    path.unlink()
    refused.heard(advisory(NODE))
    assert "a key that was not revoked" in told(refused, TELL_NS + 1)[0][1]


def test_what_cannot_be_read_or_told_apart_is_counted(
    refused: RefusedKeys, counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for data in (b"", b"{", b"\xff", b'{"client": 3}'):
        refused.heard(data)
    assert counts == {"refusal_unreadable": 4}
    monkeypatch.setattr(refused_keys, "KEYS_MAX", 1)
    refused.heard(advisory(NODE, "h" * 500))
    refused.heard(advisory(USER))
    assert counts["refusal_untold"] == 1
    assert len(told(refused, 1)[0][1]) < 200


def test_what_is_told_is_forgotten_again(refused: RefusedKeys) -> None:
    refused.heard(advisory(NODE))
    told(refused, 1)
    assert told(refused, TELL_NS + 1) == []
    refused.heard(advisory(NODE))
    assert len(told(refused, TELL_NS + 2)) == 1, "a key that was quiet is told at once"
