# SPDX-License-Identifier: Apache-2.0
"""The configuration of the Serf agent of one host, as JSON.

Pure. Owns the settings: the profile `lan`, encryption always, RPC on loopback alone and with a key.
Source: Serf's documentation of its agent's options, checked with Serf 0.9.4.
"""

from __future__ import annotations

import json

import msgspec

from stoker.mesh.connection.context import LOOPBACK
from stoker.native.errors import BadRequest

KEYS_TAG = "keys"
"""The tag with the digests of the keys that a member has."""


class SerfSettings(msgspec.Struct, frozen=True):
    """The settings that differ between hosts. `rpc_key` is a secret."""

    node: str
    address: str
    port: int
    rpc_port: int
    rpc_key: str
    keyring_file: str
    snapshot: str
    key_digests: str
    join: tuple[str, ...] = ()
    """The addresses `host:port` of members; the agent tries them until one answers."""


class SerfRpc(msgspec.Struct, frozen=True):
    """The place of the agent's RPC, and the key that it takes."""

    port: int
    key: str


def render(settings: SerfSettings) -> bytes:
    """Return the configuration; equal settings give equal bytes."""
    made: dict[str, object] = {
        "node_name": settings.node,
        "bind": f"{settings.address}:{settings.port}",
        "rpc_addr": f"{LOOPBACK}:{settings.rpc_port}",
        "rpc_auth": settings.rpc_key,
        "profile": "lan",
        "keyring_file": settings.keyring_file,
        "snapshot_path": settings.snapshot,
        "rejoin_after_leave": True,
        "leave_on_terminate": False,
        "skip_leave_on_interrupt": True,
        "disable_name_resolution": False,
        "tags": {KEYS_TAG: settings.key_digests},
        "log_level": "WARN",
    }
    if settings.join:
        made |= {"retry_join": list(settings.join), "retry_interval": "5s"}
    return json.dumps(made, indent=1).encode() + b"\n"


def rpc_of(data: bytes) -> SerfRpc:
    """Return how the agent of a configuration is reached; BadRequest for another file."""
    try:
        made = msgspec.json.decode(data, type=dict[str, object])
        host, _, port = str(made["rpc_addr"]).rpartition(":")
        found = SerfRpc(int(port), str(made["rpc_auth"]))
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, ValueError):
        raise BadRequest("this is no configuration of a Serf agent") from None
    if host != LOOPBACK or not found.key:
        raise BadRequest("this Serf agent's RPC is not on loopback, or has no key")
    return found
