# SPDX-License-Identifier: Apache-2.0
"""The leader's command chains to all nodes in the present term.

Owns the rule that all chains begin anew with a term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from stoker.mesh.identity.identity import Signs
from stoker.mesh.replica import events
from stoker.mesh.replica.authority import Authority, NodePlace
from stoker.mesh.replica.nodes.node_channel import NodeChannel
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire.command import Position, StateRequest
from stoker.scheduler.nouns import Action

TERMS_LOST_MAX = 1 << 20
"""The most terms that a node may be ahead of the log; a node that claims more is not believed."""


class NodeChannels:
    """The channels of one leader; `term` is the newest that this replica took, or 0."""

    def __init__(self, state: ReplicaState, signer: Signs) -> None:
        self.term = 0
        self.vouchers: Callable[[], tuple[bytes, ...]] = tuple
        """Returns the pledges of the other schedulers, by which a node gets to know this one."""
        self._state = state
        self._signer = signer
        self._channels: dict[str, NodeChannel] = {}
        self._places: tuple[NodePlace, ...] = ()
        """The places of all nodes after the entry `_placed`, in this term."""
        self._placed = -1

    def begin(self, term: int) -> None:
        """Begin a term: all chains start anew."""
        if term != self.term:
            self.term, self._placed = term, -1
            self._channels.clear()

    def commands(
        self, seq: int, now_ns: int, actions: Mapping[str, list[Action]]
    ) -> Iterator[events.Send]:
        """Yield the commands that log entry `seq` has for nodes."""
        self._placed = -1
        for node, todo in actions.items():
            for data in self._channel(node).commands(seq, now_ns, todo):
                yield events.Send(node, data)

    def desired(self, node: str, request: StateRequest, now_ns: int) -> bytes:
        """Return the sealed state that a node should be in now."""
        return self._channel(node).desired(request, now_ns, self.vouchers())

    def authority(self, until_ns: int | None, covers_ns: int | None = None) -> Authority:
        """Return the authority over every node, with the last command sent to each.

        It ends at `until_ns` (CLOCK_BOOTTIME), or never.
        """
        cluster, index = self._state.cluster, self._state.index
        if self._placed != index:  # a leader renews many times a second, often without an entry
            self._places, self._placed = self._all_places(), index
        return Authority(cluster, self.term, self._places, index, until_ns, covers_ns)

    def _all_places(self) -> tuple[NodePlace, ...]:
        nodes = self._state.book.nodes.items()
        return tuple(
            NodePlace(node, self._channel(node).position, report.instance) for node, report in nodes
        )

    def candidacy(self, term: int, until_ns: int, covers_ns: int) -> Authority:
        """Return the authority of a candidate, which may only extend leases until `until_ns`."""
        start = Position(term)
        nodes = self._state.book.nodes.items()
        places = tuple(NodePlace(node, start, report.instance) for node, report in nodes)
        cluster, index = self._state.cluster, self._state.index
        return Authority(cluster, term, places, index, until_ns, covers_ns, extend_only=True)

    def _channel(self, node: str) -> NodeChannel:
        channel = self._channels.get(node)
        if channel is None:
            channel = NodeChannel(self._state, node, self._signer, self.term, self._state.index)
            self._channels[node] = channel
        return channel
