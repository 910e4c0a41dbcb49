# SPDX-License-Identifier: Apache-2.0
"""Frames are the same however the bytes were cut, and what no broker sends ends the connection."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.mesh.connection import nats_frames
from stoker.mesh.connection.nats_frames import (
    LINE_BYTES_MAX,
    Delivery,
    ErrorFrame,
    Frame,
    Frames,
    InfoFrame,
    PingFrame,
    PongFrame,
)

STREAM = (
    b'INFO {"max_payload":4096}\r\n'
    b"+OK\r\n"
    b"PING\r\n"
    b"MSG _INBOX.a.1 1 5\r\nhe\r\no\r\n"
    b"MSG _INBOX.a.2 1 back 0\r\n\r\n"
    b"HMSG _INBOX.a.3 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"
    b"HMSG _INBOX.a.4 1 back 21 23\r\nNATS/1.0\r\nname: x\r\n\r\n\xffz\r\n"
    b"pong\r\n"
    b"-ERR 'Permissions Violation for Publish to \"stoker.v1.job.submit\"'\r\n"
)
FRAMES: list[Frame] = [
    InfoFrame(b'{"max_payload":4096}'),
    PingFrame(),
    Delivery("_INBOX.a.1", b"he\r\no", "", "", b"1"),
    Delivery("_INBOX.a.2", b"", "", "back", b"1"),
    Delivery("_INBOX.a.3", b"", "503", "", b"1", b"NATS/1.0 503\r\n\r\n"),
    Delivery("_INBOX.a.4", b"\xffz", "", "back", b"1", b"NATS/1.0\r\nname: x\r\n\r\n"),
    PongFrame(),
    ErrorFrame('Permissions Violation for Publish to "stoker.v1.job.submit"'),
]


@given(st.lists(st.integers(0, len(STREAM))))
def test_the_cuts_between_packets_do_not_matter(cuts: list[int]) -> None:
    at = [0, *sorted(cuts), len(STREAM)]
    frames = Frames()
    found = [each for a, b in itertools.pairwise(at) for each in frames.feed(STREAM[a:b])]
    assert found == FRAMES


@pytest.mark.parametrize(
    "wrong",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"MSG a 1\r\n",
        b"MSG a 1 -5\r\n",
        b"MSG a 1 99999999999\r\n",
        b"MSG a 1 x\r\n",
        b"HMSG a 1 9 3\r\n",
        b"x" * (LINE_BYTES_MAX + 1),
    ],
)
def test_what_no_broker_sends_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError):
        list(Frames().feed(wrong))


def test_a_request_is_one_line_and_its_bytes() -> None:
    assert nats_frames.publication("a.b", "r", b"xyz") == b"PUB a.b r 3\r\nxyz\r\n"
    signed = nats_frames.publication("a.b", "r", b"xyz", {"Sig": "1"})
    head = b"NATS/1.0\r\nSig: 1\r\n\r\n"
    assert signed == b"HPUB a.b r %d %d\r\n%sxyz\r\n" % (len(head), len(head) + 3, head)


def test_headers_are_found_by_name_with_the_status_of_a_message() -> None:
    assert nats_frames.headers(b"") is None
    assert nats_frames.headers(b"NATS/1.0\r\nSig: a: b \r\n two words: x\r\n\xff: y\r\n\r\n") == {
        "Sig": "a: b"
    }
    status = b"NATS/1.0 404 No Messages\r\nNats-Last: 3\r\n\r\n"
    assert nats_frames.headers(status) == {
        "Status": "404", "Description": "No Messages", "Nats-Last": "3",
    }  # fmt: skip
