# SPDX-License-Identifier: Apache-2.0
"""The way out for a replica that the log left behind and whom no leader helps that it knows.

Without I/O. Owns what such a replica takes from schedulers that do not lead: entries, which prove
themselves as they would in the log, and a snapshot file whose digest a majority of the schedulers
that it knows has told it. Its own word does not count there, so that no single key is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica.log.held_tail import HeldTail
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.quorum import Quorum
from stoker.mesh.replica.peers.snapshot_exchange import SnapshotExchange
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire.peer_messages import FetchRequest, Message, Witnessed, WitnessRequest

STUCK_NS = 2_000_000_000
"""A replica asks after its chain has ended at one gap for this long: a leader that it knows would
have sent it what lacks."""
AGAIN_NS = 1_000_000_000
"""The others are asked again after this time, and another one of them is taken for the source."""


class Witnesses:
    """Both sides of one replica, whose number is `own`; `send` sends to another scheduler.

    `question` names what this process asks, so that no answer to an earlier one counts.
    """

    def __init__(
        self,
        question: int,
        *,
        own: int,
        quorum: Quorum,
        state: ReplicaState,
        tail: HeldTail,
        exchange: SnapshotExchange,
        outbox: Outbox,
        send: Callable[[int, Message], None],
    ) -> None:
        self.source = 0
        """The scheduler whose entries are taken, whether or not it leads; 0 if there is none."""
        self._question = question
        self._own = own
        self._quorum = quorum
        self._state = state
        self._tail = tail
        self._exchange = exchange
        self._outbox = outbox
        self._send = send
        self._stuck_at = (0, 0)
        self._behind_at = -1
        """The end of the chain as the leader last named an entry beyond it; -1 if it did not."""
        self._since_ns = self._asked_ns = 0
        self._last = 0
        """The scheduler that was the source last."""
        self._asked: set[int] = set()
        """Those whose answers are waited for."""
        self._told: dict[int, Witnessed] = {}
        self._snapshot = (0, b"")
        """The index and the agreed digest of the newest snapshot of this replica."""

    # --- the replica that is behind ---------------------------------------------------------------

    def gap(self, now: Instant) -> None:
        """Note that an entry is missing behind the end of the chain; ask if that lasts."""
        if self._tail.end.rank != self._stuck_at:
            self._stuck_at, self._since_ns = self._tail.end.rank, now.boot_ns
            self._told = {}
        if now.boot_ns - max(self._since_ns + STUCK_NS, self._asked_ns + AGAIN_NS) < 0:
            return
        self._asked_ns = now.boot_ns
        self._take(now)
        self._told, self._asked = {}, {*self._quorum.numbers} - {self._own}
        self._outbox.count("witnesses_asked")
        for each in sorted(self._asked):
            self._send(each, WitnessRequest(self._question))

    def is_missing(self, index: int) -> bool:
        """True if the leader names an entry beyond the chain once more, and the log has shown none
        since it did so before: the log may have lost what is confirmed."""
        end, before = self._tail.end.index, self._behind_at
        self._behind_at = end if index > end else -1
        return index > end == before

    def told(self, sender: int, message: Witnessed, now: Instant) -> None:
        """Take the answer of a scheduler that was asked; one that was not is counted."""
        if message.number != self._question or sender not in self._asked:
            self._outbox.count("witness_refused")
            return
        self._asked.discard(sender)
        self._told[sender] = message

    def _take(self, now: Instant) -> None:
        """Request what lacks of the next one that can send it."""
        follows = self._state.index + 1
        can = [n for n, said in self._told.items() if said.first <= follows <= said.last]
        self.source = self._next(can)
        if self.source:
            self._send(self.source, FetchRequest(self._state.index))
            return
        agreed = self._agreed()
        if agreed is None:
            if any(said.index > self._state.index for said in self._told.values()):
                self._outbox.count("snapshot_unvouched")
        else:
            has = [n for n, said in self._told.items() if (said.index, said.digest) == agreed]
            self._exchange.want(self._next(has), now.boot_ns, agreed[1])

    def _agreed(self) -> tuple[int, bytes] | None:
        """Return the newest snapshot behind this state that a majority has alike, beside this
        replica; None if there is none."""
        counted = self._quorum.numbers - {self._own}
        told = ((said.index, said.digest) for n, said in self._told.items() if n in counted)
        found = [
            each
            for each, count in Counter(told).items()
            if count >= self._quorum.majority and each[0] > self._state.index
        ]
        return max(found, default=None)

    def _next(self, numbers: Iterable[int]) -> int:
        """Return one scheduler after the other, so that none that fails is asked for ever; 0 of
        none."""
        found = sorted(numbers)
        if found:
            self._last = next((each for each in found if each > self._last), found[0])
        return self._last if found else 0

    # --- the replica that is asked ----------------------------------------------------------------

    def has(self, index: int, digest: bytes) -> None:
        """Note a snapshot of this replica, which is durable."""
        self._snapshot = max(self._snapshot, (index, digest))

    def requested(self, sender: int, message: WitnessRequest, now: Instant) -> None:
        """Tell which entries and which snapshot this replica has."""
        first, last = self._tail.first, self._tail.end.index
        self._send(sender, Witnessed(message.number, first, last, *self._snapshot))
