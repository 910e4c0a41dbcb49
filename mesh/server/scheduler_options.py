# SPDX-License-Identifier: Apache-2.0
"""The command line of the scheduler's process, and the record of the cluster in its state folder.

Guarantees that a key other than that of cluster.json is refused.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import msgspec

from stoker.mesh.broker import broker_config
from stoker.mesh.connection.process_connection import key_file
from stoker.mesh.identity import identity, sealed_json
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import genesis
from stoker.mesh.log.feature_level import BUILD, FORMATS
from stoker.mesh.log.genesis import Genesis, member_number
from stoker.native.errors import BadRequest, Corrupt

DISK_RESERVE_BYTES = 64 << 20
"""The bytes of the state disk that are kept free for running jobs; below that no job is taken."""


class ServerName(msgspec.Struct, frozen=True):
    """The part of a server's record that the scheduler uses."""

    node: str
    scheduler: str


class ClusterRecord(msgspec.Struct, frozen=True):
    """The part of cluster.json that the scheduler uses."""

    cluster: str
    node: str
    scheduler_public_key: str
    port: int
    servers: tuple[ServerName, ...] = ()
    """The servers of a cluster that has several."""

    @property
    def keys(self) -> dict[str, str]:
        """The public key of each server's scheduler, by the server's name."""
        return {each.node: each.scheduler for each in self.servers}

    @property
    def homes(self) -> dict[int, str]:
        """The node of each scheduler's host, by the scheduler's number."""
        keys = {each.scheduler: each.node for each in self.servers}
        named = keys or {self.scheduler_public_key: self.node}
        return {member_number(public): node for public, node in named.items()}


class SchedulerOptions(msgspec.Struct, frozen=True):
    """The command line."""

    state: Path
    log_max_bytes: int = broker_config.LOG_MAX_BYTES
    disk_reserve_bytes: int = DISK_RESERVE_BYTES


def parse(arguments: list[str], description: str | None) -> SchedulerOptions:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="stoker-scheduler", description=description)
    parser.add_argument("--state", type=Path, required=True)
    limit = os.environ.get("STOKER_SCHEDULER_LOG_MAX_BYTES", str(broker_config.LOG_MAX_BYTES))
    parser.add_argument("--log-max-bytes", type=int, default=limit)
    parser.add_argument("--disk-reserve-bytes", type=int, default=DISK_RESERVE_BYTES)
    return SchedulerOptions(**vars(parser.parse_args(arguments)))


def read_cluster(state: Path) -> ClusterRecord:
    """Return the record of the cluster; Corrupt if it cannot be read."""
    file = state / "cluster.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=ClusterRecord)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"{file}: {error}") from None


def read_genesis(state: Path, cluster: ClusterRecord) -> Genesis:
    """Return the genesis of the cluster; Corrupt if it cannot be read or is another cluster's."""
    file = state / "genesis.json"
    try:
        found = sealed_json.decode(file.read_bytes(), Genesis)
        genesis.check(found)
    except (OSError, msgspec.MsgspecError, BadRequest) as error:
        raise Corrupt(f"{file}: {error}", hint="Restore it from a backup") from None
    if found.formats != FORMATS.get(found.level):
        raise Corrupt(
            f"{file} founds a cluster of feature level {found.level} with {found.formats}, and this"
            f" version supports {BUILD.text}",
            hint="Use a stoker that supports this level; docs/operator/cluster.md has the way",
        )
    if found.cluster != cluster.cluster:
        raise Corrupt(f"{file} founds cluster {found.cluster}, this is {cluster.cluster}")
    return found


def read_key(state: Path, cluster: ClusterRecord) -> Identity:
    """Return the scheduler's key; Corrupt if it is not the one of the cluster."""
    key = identity.load(key_file(state))
    if key.public != cluster.scheduler_public_key:
        raise Corrupt(f"{key_file(state)} is not the key that cluster.json names")
    return key
