# SPDX-License-Identifier: Apache-2.0
"""Entries that are opened once are those that are opened each time, and damage is always found."""

from __future__ import annotations

import pytest

from stoker.mesh.log import entry as entries
from stoker.mesh.sim.keyed_hash import KeyedHash
from stoker.mesh.sim.opened_entries import OpenedEntries
from stoker.mesh.wire import peer_messages
from stoker.native.errors import BadRequest, Corrupt


def sealed(index: int) -> bytes:
    fields = (entries.FORMAT, "sim", 1, 1, index, index - 1, entries.NO_HASH, 0, 5, b"")
    return entries.seal(entries.Entry(*fields), KeyedHash("U1")).data


def test_an_entry_opens_as_without_it() -> None:
    opened = OpenedEntries()
    for data in (sealed(1), sealed(2), sealed(1)):
        assert opened.unseal(7, data) == entries.unseal(7, data)


def test_a_damaged_entry_is_refused_each_time() -> None:
    opened, data = OpenedEntries(), sealed(1)
    opened.unseal(1, data)
    for _ in range(2):
        with pytest.raises(Corrupt, match="log entry 3"):
            opened.unseal(3, data[:-1] + b"x")


def test_a_message_is_read_as_without_it() -> None:
    envelope = peer_messages.PeerEnvelope(
        peer_messages.FORMAT, "sim", 1, 2, peer_messages.Appended(3, 4, 5)
    )
    opened, data = OpenedEntries(), peer_messages.seal(envelope, KeyedHash("U1"))
    assert opened.read_envelope(data) == envelope == peer_messages.read_envelope(data)
    assert opened.read_envelope(data) is opened.read_envelope(bytes(bytearray(data)))
    for _ in range(2):
        with pytest.raises(BadRequest):
            opened.read_envelope(data[:-3])
