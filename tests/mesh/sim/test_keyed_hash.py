# SPDX-License-Identifier: Apache-2.0
"""Signatures of one key fit no other key and no other data."""

from __future__ import annotations

from stoker.mesh.identity.identity import SIGNATURE_BYTES
from stoker.mesh.sim.keyed_hash import KeyedHash


def test_a_signature_fits_its_key_and_its_data() -> None:
    one, other = KeyedHash("U1"), KeyedHash("U2")
    signature = one.sign(b"data")
    assert len(signature) == SIGNATURE_BYTES
    assert KeyedHash("U1").verify(b"data", signature)
    assert not one.verify(b"other data", signature)
    assert not other.verify(b"data", signature)
