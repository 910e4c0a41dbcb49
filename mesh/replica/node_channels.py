# SPDX-License-Identifier: Apache-2.0
"""The leader's side of all nodes: one chain of commands for each, in the present term.

Owns the rule that chains begin anew with a term, and says which nodes may go on by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.mesh.identity.identity import Signs
from stoker.mesh.replica import events
from stoker.mesh.replica.authority import Authority
from stoker.mesh.replica.node_channel import NodeChannel
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire.command import StateRequest
from stoker.scheduler.nouns import Action

TERMS_LOST_MAX = 1 << 20
"""A node that claims to have followed more terms than the log holds is not believed."""


class NodeChannels:
    """`term` is the one this replica took; 0: none yet."""

    def __init__(self, state: ReplicaState, signer: Signs) -> None:
        self.term = 0
        self._state = state
        self._signer = signer
        self._links: dict[str, NodeChannel] = {}

    def begin(self, term: int) -> None:
        """Another term: what was said in the one before counts no more."""
        if term != self.term:
            self.term = term
            self._links.clear()

    def commands(
        self, seq: int, now_ns: int, actions: Mapping[str, list[Action]]
    ) -> Iterator[events.Send]:
        """What log entry `seq` means for nodes."""
        for node, todo in actions.items():
            for data in self._link(node).commands(seq, now_ns, todo):
                yield events.Send(node, data)

    def desired(self, node: str, request: StateRequest, now_ns: int) -> bytes:
        """All that should be at a node now; sealed."""
        return self._link(node).desired(request, now_ns)

    def authority(self) -> Authority:
        """Every node, and how far it was told."""
        nodes = self._state.book.nodes
        places = tuple((node, self._link(node).position) for node in nodes)
        return Authority(self._state.cluster, self.term, places)

    def _link(self, node: str) -> NodeChannel:
        link = self._links.get(node)
        if link is None:
            link = NodeChannel(self._state, node, self._signer, self.term, self._state.seen)
            self._links[node] = link
        return link
