# SPDX-License-Identifier: Apache-2.0
"""A host that is about to become a server, without a network: its folder, keys and record."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from stoker.agent.join import newcomer
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import AGENT, ClusterFile, StateFolder
from stoker.mesh.identity import identity
from stoker.mesh.identity.join_token import JoinToken
from stoker.mesh.log import log_record
from stoker.mesh.wire import join_messages
from stoker.mesh.wire.cluster_server import ClusterServer
from stoker.mesh.wire.join_messages import JoinReply, JoinRequest
from stoker.native import durable_file


class NewServer(NamedTuple):
    """Its folder, and what it says of itself."""

    where: StateFolder
    record: ClusterServer

    def request(self, token: JoinToken, nonce: bytes) -> bytes:
        """Return its join request as it travels."""
        own = identity.load(self.where.key(AGENT))
        names = token.key.public, self.record.node, own.public
        request = JoinRequest(join_messages.FORMAT, *names, nonce, self.record)
        return join_messages.seal(request, token.key, own)

    def join(self, reply: JoinReply) -> ClusterFile:
        """Complete its folder with the registrar's answer."""
        assert reply.first is not None, reply.refused
        pinned = reply.first.certificate.encode()
        made = newcomer._server_record(reply, self.record, pinned)
        durable_file.replace(self.where.keys / newcomer.PINS, pinned)
        log_record.begin(self.where.scheduler)
        state_folder.write_cluster(self.where, made)
        state_folder.seal_format(self.where)
        return made


def new_server(folder: Path, name: str, address: str) -> NewServer:
    """Make the folder of a host that has its keys and has asked nobody yet."""
    where = state_folder.locate(folder / name)
    state_folder.prepare(where)
    identity.create(where.key(AGENT))
    return NewServer(where, newcomer._server(where, name, address))
