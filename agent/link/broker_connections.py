# SPDX-License-Identifier: Apache-2.0
"""The agent's two connections to its broker: one for the daemon, one for the lease alone.

The lease has a connection and a thread of its own, so the daemon's loop never delays it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping

from stoker.agent.agent_settings import AgentSettings
from stoker.agent.jobs import steps
from stoker.agent.jobs.lease_judge import LeaseHolder, LeaseJudge
from stoker.agent.link.agent_connection import AgentConnection, MessageHandler
from stoker.agent.link.lease_thread import LeaseThread
from stoker.agent.state.lease import Lease
from stoker.mesh.identity.identity import Verifier
from stoker.mesh.wire import subjects
from stoker.mesh.wire.command import CommandChain
from stoker.mesh.wire.lease_messages import NONCE_BITS


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
        self, chain: CommandChain, lease: Lease, post: Callable[[steps.LeaseRenewed], None]
    ) -> LeaseThread:
        """Return the thread that renews the lease; `post` is called in that thread."""
        setting, node = self._setting, self._setting.node
        return LeaseThread(
            lambda handle: self._connection(f"{node} lease", {subjects.lease_answer(node): handle}),
            subjects.lease_request(node),
            LeaseJudge(
                LeaseHolder(chain.cluster, node, setting.instance),
                [Verifier(key) for key in setting.cluster.scheduler_keys],
                lambda: secrets.randbits(NONCE_BITS),
                lease.expiry_boottime_ns
                if lease.valid(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
                else 0,
            ),
            lease,
            position=lambda: chain.position,
            post=post,
        )

    def _connection(self, name: str, handlers: Mapping[str, MessageHandler]) -> AgentConnection:
        setting = self._setting
        inbox = subjects.inbox(f"agent.{setting.node}")
        return AgentConnection(name, setting.broker, setting.state.key("agent"), inbox, handlers)
