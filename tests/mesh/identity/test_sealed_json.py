# SPDX-License-Identifier: Apache-2.0
"""A sealed file is unchanged since stoker wrote it, or it is refused."""

from __future__ import annotations

import json

import msgspec
import pytest

from stoker.mesh.identity import sealed_json


class Record(msgspec.Struct, frozen=True):
    names: tuple[str, ...]
    watts: float
    rows: dict[str, int]


RECORD = Record(("a", "é"), 3900.0, {"b": 2, "a": 1})


def test_a_record_is_read_back() -> None:
    data = sealed_json.encode(RECORD)
    assert sealed_json.decode(data, Record) == RECORD
    assert data.endswith(b"}\n") and b'\n  "watts": 3900.0' in data, "for people too"


def test_no_bit_of_its_content_can_change_unnoticed() -> None:
    data = sealed_json.encode(RECORD)
    for at in range(len(data)):
        for bit in range(8):
            damaged = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            try:
                found = sealed_json.decode(damaged, Record)
            except msgspec.DecodeError:
                continue
            assert found == RECORD, "blanks and the seal's own name may change"


def test_a_file_without_a_seal_is_taken_and_a_wrong_one_says_what_to_do() -> None:
    raw = json.loads(sealed_json.encode(RECORD))
    raw["watts"] = 4000.0
    with pytest.raises(msgspec.DecodeError, match="if that was on purpose"):
        sealed_json.decode(json.dumps(raw).encode(), Record)
    del raw[sealed_json.NAME]
    assert sealed_json.decode(json.dumps(raw).encode(), Record).watts == 4000.0
