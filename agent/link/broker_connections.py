# SPDX-License-Identifier: Apache-2.0
"""The agent's connections to the brokers: one for the daemon, one or two for the lease alone.

The lease has a thread of its own, so the daemon's loop never delays it. Where there are several
brokers, its two connections are never to the same one, so a broker that stops costs no lease.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from stoker.agent.agent_settings import AgentSettings
from stoker.agent.jobs import steps
from stoker.agent.jobs.lease_judge import LeaseHolder, LeaseJudge
from stoker.agent.link.agent_client import MessageHandler
from stoker.agent.link.agent_connection import AgentConnection
from stoker.agent.link.lease_thread import LeaseThread
from stoker.agent.state.lease import Lease
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
        handlers = {subjects.command(node): command, **queries}
        return self._connection(node, self._setting.brokers, handlers)

    def lease_thread(
        self, chain: CommandChain, lease: Lease, post: Callable[[steps.Event], None]
    ) -> LeaseThread:
        """Return the thread that renews the lease; `post` is called in that thread."""
        setting, node = self._setting, self._setting.node
        return LeaseThread(
            self._lease_connections,
            subjects.lease_request(node),
            LeaseJudge(
                LeaseHolder(chain.cluster, node, setting.instance),
                setting.members,
                lambda: secrets.randbits(NONCE_BITS),
                lease.expiry_boottime_ns
                if lease.valid(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
                else 0,
            ),
            lease,
            position=lambda: chain.position,
            post=post,
        )

    def _lease_connections(self, handle: MessageHandler) -> list[AgentConnection]:
        """Return one connection, or two to different brokers where there are several."""
        node, brokers = self._setting.node, self._setting.brokers
        handlers = {subjects.lease_answer(node): handle}
        if len(brokers()) == 1:
            return [self._connection(f"{node} lease", brokers, handlers)]
        made: list[AgentConnection] = []

        def beside(other: int) -> Sequence[str]:
            return [each for each in brokers() if each != made[other].address]

        for number in (0, 1):
            name = f"{node} lease {number + 1}"
            made.append(self._connection(name, partial(beside, 1 - number), handlers))
        return made

    def _connection(
        self, name: str, where: Callable[[], Sequence[str]], handlers: Mapping[str, MessageHandler]
    ) -> AgentConnection:
        setting = self._setting
        inbox = subjects.inbox(f"agent.{setting.node}")
        seed = setting.state.key("agent")
        return AgentConnection(name, where, seed, inbox, handlers, pinned=setting.pinned)
