# SPDX-License-Identifier: Apache-2.0
"""The split of a stream into msgpack objects: wherever it is cut, and whatever it claims."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.mesh.gossip.message_splitter import MessageSplitter
from stoker.native.errors import BadRequest

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=300)
    | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


@given(st.lists(VALUES, max_size=4), st.integers(1, 50))
def test_objects_come_out_as_they_went_in_wherever_the_stream_is_cut(
    values: list[Any], step: int
) -> None:
    data = b"".join(msgspec.msgpack.encode(each) for each in values)
    splitter, found = MessageSplitter(), []
    for at in range(0, len(data), step):
        found += splitter.feed(data[at : at + step])
    assert [msgspec.msgpack.decode(each) for each in found] == values


@pytest.mark.parametrize(
    "data",
    [
        b"\xc0",
        b"\xc7\x03\x01abc",  # ext 8
        b"\xc8\x00\x01\x01a",
        b"\xd4\x01a",
        b"\xd8\x01" + b"a" * 16,
        b"\xdc\x00\x02\x01\x02",
        b"\xdd\x00\x00\x00\x01\xa1a",
        b"\xde\x00\x01\xa1a\x01",
        b"\xdf\x00\x00\x00\x01\xa1a\x01",
        b"\xca\x00\x00\x00\x00",
        b"\xd1\xff\xff",
    ],
)
def test_each_form_ends_where_the_specification_says(data: bytes) -> None:
    splitter = MessageSplitter()
    assert splitter.feed(data[:-1]) == []
    assert splitter.feed(data[-1:] + data) == [data, data]


@pytest.mark.parametrize(
    "data",
    [
        b"\xdb\xff\xff\xff\xff",  # a string of 4 GiB
        b"\xdd\xff\xff\xff\xff",  # a list of as many objects
        b"\xdf\x7f\xff\xff\xff",
        b"\xc6\x00\x00\x10\x00",
    ],
)
def test_an_object_that_is_too_large_is_refused_at_its_head(data: bytes) -> None:
    with pytest.raises(BadRequest, match="more than 1000 bytes"):
        MessageSplitter(1000).feed(data)


def test_no_more_is_kept_than_the_limit() -> None:
    splitter = MessageSplitter(1000)
    with pytest.raises(BadRequest, match="more than 1000 bytes"):
        for _ in range(1000):
            splitter.feed(b"\x9f\x9f")  # lists in lists that never end


def test_a_byte_that_begins_nothing_is_refused() -> None:
    with pytest.raises(BadRequest, match="begins no msgpack object"):
        MessageSplitter().feed(b"\x01\xc1")
