# SPDX-License-Identifier: Apache-2.0
"""The entries and peers' messages of one simulated cluster, each decoded once for all who read it.

Owns the promise that nothing but time is saved: equal bytes decode to equal records, which nobody
can change, and bytes that do not decode are looked at again each time. Signatures of messages are
checked by each receiver.
"""

from __future__ import annotations

from stoker.mesh.log import entry as entries
from stoker.mesh.log.entry import Opened
from stoker.mesh.wire import peer_messages
from stoker.mesh.wire.peer_messages import PeerEnvelope


class OpenedEntries:
    """The entries and messages by their bytes."""

    def __init__(self) -> None:
        self._opened: dict[bytes, Opened] = {}
        self._envelopes: dict[bytes, PeerEnvelope] = {}

    def unseal(self, seq: int, data: bytes) -> Opened:
        """Return the entry at `seq`; Corrupt if its bytes were changed."""
        opened = self._opened.get(data)
        if opened is None:
            opened = self._opened[data] = entries.unseal(seq, data)
        return opened

    def read_envelope(self, data: bytes) -> PeerEnvelope:
        """Return a message before the check of its signature; BadRequest if it is none."""
        envelope = self._envelopes.get(data)
        if envelope is None:
            envelope = self._envelopes[data] = peer_messages.read_envelope(data)
        return envelope
