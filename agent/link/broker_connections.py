# SPDX-License-Identifier: Apache-2.0
"""The agent's two connections to its broker: one for the daemon, one for the lease alone.

Heartbeats have a connection and a thread of their own, so the daemon's loop never delays them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stoker.agent.agent_settings import AgentSettings
from stoker.agent.jobs import steps
from stoker.agent.link.agent_connection import AgentConnection, MessageHandler
from stoker.agent.link.lease_thread import LeaseThread
from stoker.agent.state.lease import Lease
from stoker.mesh.identity.identity import Verifier
from stoker.mesh.wire import subjects
from stoker.mesh.wire.command import CommandChain, HeartbeatJudge


class BrokerConnections:
    """Makes the connections of one agent."""

    def __init__(self, setting: AgentSettings) -> None:
        self._setting = setting

    def daemon(self, command: MessageHandler, query: MessageHandler) -> AgentConnection:
        """Return the daemon's connection, which hears commands and queries."""
        node = self._setting.node
        queries = {subjects.query(node, kind): query for kind in subjects.QUERIES}
        return self._connection(node, {subjects.command(node): command, **queries})

    def lease_thread(
        self, chain: CommandChain, lease: Lease, post: Callable[[steps.HeartbeatReceived], None]
    ) -> LeaseThread:
        """Return the thread that hears heartbeats; `post` is called in that thread."""
        node = self._setting.node
        key = self._setting.cluster.scheduler_public_key
        return LeaseThread(
            lambda handle: self._connection(f"{node} lease", {subjects.heartbeat(node): handle}),
            HeartbeatJudge(chain.cluster, node, Verifier(key)),
            lease,
            lambda: chain.position,
            post,
        )

    def _connection(self, name: str, handlers: Mapping[str, MessageHandler]) -> AgentConnection:
        setting = self._setting
        inbox = subjects.inbox(f"agent.{setting.node}")
        return AgentConnection(name, setting.broker, setting.state.key("agent"), inbox, handlers)
