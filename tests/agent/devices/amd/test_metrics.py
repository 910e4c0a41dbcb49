# SPDX-License-Identifier: Apache-2.0
"""The table of amdgpu: tables that are refused, and entries that a card lacks."""

from __future__ import annotations

import struct

import pytest

from stoker.agent.devices.amd import metrics
from stoker.agent.devices.readings import Absent


@pytest.mark.parametrize(
    ("blob", "why"),
    [
        (b"", "0 bytes"),
        (struct.pack("<HBB", 120, 2, 1) + bytes(116), "format 2.1"),
        (struct.pack("<HBB", 500, 1, 3) + bytes(60), "says 500"),
    ],
)
def test_a_table_that_cannot_be_read_says_why(blob: bytes, why: str) -> None:
    found = metrics.parse(blob)
    assert isinstance(found, Absent) and why in found.why


def test_entries_that_a_card_lacks_are_left_out() -> None:
    body = struct.pack("<6H", 0xFFFF, 55, 44, 1, 2, 3) + b"\xff" * 100
    found = metrics.parse(struct.pack("<HBB", 4 + len(body), 1, 3) + body)
    assert isinstance(found, dict)
    assert (found.get("temperature_edge"), found["temperature_hotspot"]) == (None, 55)
    assert "energy_accumulator" not in found
