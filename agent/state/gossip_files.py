# SPDX-License-Identifier: Apache-2.0
"""The gossip mesh on this host: `[gossip]` of config.toml, the keys, and the files of the Serf
agent.

Owns that `keys/gossip.json` is the truth about keys: the keyring and the configuration of the Serf
agent are made from it at each of its starts, private and under `gossip`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import msgspec

from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.mesh.gossip import gossip_access, serf_config
from stoker.mesh.gossip.gossip_access import PORT, GossipAccess
from stoker.mesh.gossip.serf_config import SerfRpc
from stoker.mesh.identity import sealed_json
from stoker.native import config_table, durable_file
from stoker.native.errors import BadRequest, Corrupt, NotFound

SERF = "serf"


class GossipConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[gossip]` of config.toml."""

    enabled: bool = True
    """Take part in the gossip mesh, on a host that has an address for others."""
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = PORT
    """Port of the mesh, TCP and UDP, on the address for other hosts; the same on all hosts."""


def read_config(where: StateFolder) -> GossipConfig:
    """Return `[gossip]`, or its defaults; BadRequest for a file that cannot be read."""
    return config_table.read(where.root / "config.toml", "gossip", GossipConfig)


def program() -> str | None:
    """Return the path of Serf on this machine; None if it is not installed."""
    return shutil.which(SERF)


def absence(where: StateFolder, cluster: ClusterFile) -> str:
    """Return why this host takes no part in the mesh; empty if it does."""
    return unwanted(where, cluster) or lack(where)


def unwanted(where: StateFolder, cluster: ClusterFile) -> str:
    """Return why this host shall take no part in the mesh; empty if it shall."""
    if not cluster.address:
        return "this host has no address for others"
    if cluster.waits:
        return "the cluster waits for its servers"
    return "" if read_config(where).enabled else "it is turned off in config.toml"


def lack(where: StateFolder) -> str:
    """Return what this host lacks to take part in the mesh; empty if it has all."""
    if program() is None:
        return "serf is not installed on this host"
    if not file(where).exists():
        return "this host has no gossip key; `stoker cluster rotate` fetches it"
    return ""


def file(where: StateFolder) -> Path:
    """Return the path of the access to the mesh."""
    return where.keys / "gossip.json"


def folder(where: StateFolder) -> Path:
    """Return the folder of the Serf agent's own files."""
    return where.root / "gossip"


def config_file(where: StateFolder) -> Path:
    return folder(where) / "serf.json"


def load(where: StateFolder) -> GossipAccess:
    """Return this host's access; NotFound if it has none, Corrupt for a damaged file."""
    path = file(where)
    if not path.exists():
        raise NotFound("this host has no gossip key", hint="`stoker cluster rotate` fetches it")
    access = state_folder.read_json(path, GossipAccess)
    try:
        gossip_access.check(access)
    except BadRequest as error:
        raise Corrupt(f"{path}: {error.message}", hint="Restore it from a backup") from None
    return access


def store(where: StateFolder, access: GossipAccess) -> None:
    """Replace this host's access durably; only its owner can read it."""
    durable_file.replace(file(where), sealed_json.encode(access))


def make(where: StateFolder) -> None:
    """Make the mesh's first key on the host where the cluster was made, if there is none."""
    if not file(where).exists():
        store(where, GossipAccess((gossip_access.new_key(),), read_config(where).port))


def rpc(where: StateFolder) -> SerfRpc:
    """Return how the Serf agent of this host is reached; NotFound before its first start."""
    path = config_file(where)
    try:
        return serf_config.rpc_of(path.read_bytes())
    except FileNotFoundError:
        raise NotFound("the Serf agent of this host has not been started yet") from None
    except BadRequest as error:
        raise Corrupt(f"{path}: {error.message}") from None
