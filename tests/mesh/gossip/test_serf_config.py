# SPDX-License-Identifier: Apache-2.0
"""The configuration of a Serf agent: encrypted, with RPC on loopback and a key."""

from __future__ import annotations

import json

import pytest

from stoker.mesh.gossip import serf_config
from stoker.mesh.gossip.serf_config import SerfRpc, SerfSettings
from stoker.native.errors import BadRequest

SETTINGS = SerfSettings(
    "a", "10.0.0.1", 7946, 4000, "secret", "/s/keyring", "/s/snapshot", "k1,k2", ("10.0.0.2:7946",)
)


def test_the_settings_are_those_of_a_secured_mesh() -> None:
    made = json.loads(serf_config.render(SETTINGS))
    assert made["bind"] == "10.0.0.1:7946"
    assert (made["rpc_addr"], made["rpc_auth"]) == ("127.0.0.1:4000", "secret")
    assert (made["profile"], made["keyring_file"]) == ("lan", "/s/keyring")
    assert (made["tags"], made["retry_join"]) == ({"keys": "k1,k2"}, ["10.0.0.2:7946"])
    assert "encrypt_key" not in made


def test_a_host_that_is_alone_tries_to_join_nobody() -> None:
    alone = SerfSettings("a", "10.0.0.1", 7946, 4000, "secret", "/k", "/s", "k1")
    assert "retry_join" not in json.loads(serf_config.render(alone))


def test_the_rpc_of_a_configuration_is_found() -> None:
    assert serf_config.rpc_of(serf_config.render(SETTINGS)) == SerfRpc(4000, "secret")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"rpc_addr": "127.0.0.1:x", "rpc_auth": "k"}',
        b'{"rpc_addr": "127.0.0.1:1"}',
        b'{"rpc_addr": "10.0.0.1:1", "rpc_auth": "k"}',
        b'{"rpc_addr": "127.0.0.1:1", "rpc_auth": ""}',
    ],
)
def test_another_file_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        serf_config.rpc_of(data)
