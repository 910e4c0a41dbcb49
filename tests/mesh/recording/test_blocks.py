# SPDX-License-Identifier: Apache-2.0
"""The format of recordings: what is whole is read, what is damaged is named and costs itself."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.mesh.recording import blocks
from stoker.mesh.recording.blocks import HEADER, Block, Damage, Recorded
from stoker.native.errors import Corrupt, NotSupported

ROWS = st.dictionaries(st.text(max_size=8), st.none() | st.binary(max_size=40), max_size=4)
MOMENTS = st.lists(
    st.builds(Recorded, st.integers(0, 1 << 62), st.text(max_size=9), ROWS, st.booleans()),
    min_size=1,
    max_size=5,
)


def row(t_ns: int, value: bytes = b"1", part: str = "devices") -> Recorded:
    return Recorded(t_ns, part, {"n1:0": value})


def three() -> list[bytes]:
    return [
        blocks.encode([row(10)], key=True),
        blocks.encode([row(20), row(25)], key=False),
        blocks.encode([row(30)], key=True),
    ]


def found(data: bytes) -> list[Block | Damage]:
    return list(blocks.scan(data, blocks.check_header(data, "f.rec")))


@given(MOMENTS, st.booleans())
def test_a_block_gives_back_its_moments(moments: list[Recorded], key: bool) -> None:
    data = HEADER + blocks.encode(moments, key=key)
    (block,) = found(data)
    assert isinstance(block, Block) and block.key == key
    assert (block.first_ns, block.last_ns) == (
        min(each.t_ns for each in moments), max(each.t_ns for each in moments)
    )  # fmt: skip
    assert blocks.decode(data[block.offset :]) == moments


@pytest.mark.parametrize("cut", [1, 30, 40])
def test_a_file_that_is_cut_off_costs_its_last_block(cut: int) -> None:
    data = HEADER + b"".join(three())
    whole, rest = found(data[:-cut])[:-1], found(data[:-cut])[-1]
    assert [each.first_ns for each in whole if isinstance(each, Block)] == [10, 20]
    assert isinstance(rest, Damage) and rest.offset + rest.size == len(data) - cut
    assert "cut off" in rest.why


def test_a_damaged_block_takes_along_what_builds_on_it() -> None:
    first, second, third = three()
    spoiled = bytearray(HEADER + first + second + third)
    spoiled[len(HEADER) + len(first) - 1] ^= 1
    kinds = found(bytes(spoiled))
    assert [type(each) for each in kinds] == [Damage, Damage, Block]
    assert "checksum" in kinds[0].why and "builds on" in kinds[1].why  # type: ignore[union-attr]


@given(st.binary(max_size=400))
def test_any_bytes_behind_a_header_are_blocks_or_damage(noise: bytes) -> None:
    data = HEADER + noise
    assert sum(each.size for each in found(data)) == len(noise)
    assert all(isinstance(each, Damage) for each in found(data))


def test_foreign_empty_and_newer_files_are_told_apart() -> None:
    for data, kind, words in (
        (b"", Corrupt, "f.rec is empty"),
        (b"\x89PNG\r\n", Corrupt, "f.rec is no recording of stoker"),
        (HEADER[:-1], Corrupt, "f.rec is no recording of stoker"),
        (b"stoker recording 2\n", NotSupported, "of format 2, and this stoker reads format 1"),
    ):
        with pytest.raises(kind, match=words) as raised:
            blocks.check_header(data, "f.rec")
        assert raised.value.hint


def test_a_block_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "UNPACKED_BYTES_MAX", 1000)
    with pytest.raises(Corrupt, match="unpacks to more than 1000 bytes"):
        blocks.decode(blocks.encode([row(1, b"0" * 100_000)], key=True))
    packed = zlib.compress(b"not msgpack at all")
    with pytest.raises(Corrupt, match="not what stoker wrote"):
        blocks.decode(blocks.encode([row(1)], key=True)[:25] + packed)
