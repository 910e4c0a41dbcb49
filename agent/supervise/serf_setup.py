# SPDX-License-Identifier: Apache-2.0
"""The setup of the Serf agent before each of its starts: its keyring and its configuration.

Owns that its secrets are in private files alone, never in arguments, and that its RPC has another
key and a free port on loopback at each start, so that nobody else answers there for long.
"""

from __future__ import annotations

import json
import secrets
import socket

from stoker.agent.state import gossip_files
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import broker_port
from stoker.mesh.connection.context import LOOPBACK
from stoker.mesh.gossip import serf_config
from stoker.mesh.gossip.gossip_access import GossipAccess
from stoker.mesh.gossip.serf_config import SerfSettings
from stoker.native import durable_file
from stoker.native.errors import Refused

RPC_KEY_BYTES = 32


def prepare(where: StateFolder, cluster: ClusterFile) -> None:
    """Write the files of the Serf agent; Refused if its port is taken, NotFound without a key."""
    access, config = gossip_files.load(where), gossip_files.read_config(where)
    if not broker_port.is_free(config.port, cluster.address):
        raise Refused(
            f"port {config.port} is in use by {broker_port.holder(config.port)}",
            hint="`[gossip] port` in config.toml sets another one",
        )
    folder = gossip_files.folder(where)
    folder.mkdir(mode=0o700, exist_ok=True)
    keyring = folder / "keyring.json"
    durable_file.replace(keyring, json.dumps(list(access.keys), indent=1).encode())
    settings = SerfSettings(
        node=cluster.node,
        address=cluster.address,
        port=config.port,
        rpc_port=_free_port(),
        rpc_key=secrets.token_urlsafe(RPC_KEY_BYTES),
        keyring_file=str(keyring),
        snapshot=str(folder / "snapshot"),
        key_digests=access.digests,
        join=seeds(cluster, access),
    )
    durable_file.replace(gossip_files.config_file(where), serf_config.render(settings))


def seeds(cluster: ClusterFile, access: GossipAccess) -> tuple[str, ...]:
    """Return the addresses by which a host finds the mesh: those of the servers."""
    urls = [url.rpartition("://")[2].rpartition(":")[0] for url in cluster.brokers]
    hosts = dict.fromkeys((*(each.address for each in cluster.servers), *urls))
    return tuple(f"{host}:{access.port}" for host in hosts if host and host != cluster.address)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind((LOOPBACK, 0))
        return int(sock.getsockname()[1])
