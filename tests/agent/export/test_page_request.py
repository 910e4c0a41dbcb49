# SPDX-License-Identifier: Apache-2.0
"""Requests for the page, whole and in pieces, and bytes that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.agent.export.page_request import (
    REQUEST_BYTES_MAX,
    Answer,
    PageRequest,
    RequestReader,
    form_of,
)

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
    "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
"""The Accept header of Prometheus 2.42."""


def fed(data: bytes) -> PageRequest | Answer | None:
    return RequestReader().feed(data)


def test_a_request_in_pieces_is_one_request() -> None:
    reader = RequestReader()
    whole = f"GET /metrics?x=1 HTTP/1.1\r\nHost: n\r\nAccept: {PROMETHEUS}\r\n\r\n".encode()
    for byte in whole[:-1]:
        assert reader.feed(bytes([byte])) is None
    assert reader.feed(whole[-1:]) == PageRequest("/metrics", "openmetrics")
    answered = reader.answer(Answer(200, b"body"))
    assert answered.startswith(b"HTTP/1.1 200 OK\r\n") and answered.endswith(b"\r\n\r\nbody")


def test_a_head_request_gets_no_body() -> None:
    reader = RequestReader()
    reader.feed(b"HEAD /livez HTTP/1.1\r\nHost: n\r\n\r\n")
    answered = reader.answer(Answer(200, b"ok\n"))
    assert b"Content-Length: 3" in answered and answered.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\nHost: n\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\nHost: n\r\n\r\n", 404),
        (b"GET /../etc/passwd HTTP/1.1\r\nHost: n\r\n\r\n", 404),
        (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * REQUEST_BYTES_MAX, 431),
        (b"x" * (REQUEST_BYTES_MAX + 1), 431),
        (b"", 400),
    ],
)
def test_what_is_no_request_for_a_page_is_answered_by_its_status(data: bytes, status: int) -> None:
    reader = RequestReader()
    found = reader.feed(data)
    assert isinstance(found, Answer) and found.status == status
    assert reader.answer(found).startswith(f"HTTP/1.1 {status} ".encode())


@given(st.binary(max_size=400))
def test_no_bytes_raise(data: bytes) -> None:
    reader = RequestReader()
    found = reader.feed(data)
    if isinstance(found, Answer):
        assert reader.answer(found).startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (PROMETHEUS, "openmetrics"),
        ("", "text"),
        ("*/*", "text"),
        ("text/plain;version=0.0.4;q=1,application/openmetrics-text;q=0.5", "text"),
        ("application/openmetrics-text;q=0", "text"),
        ("application/openmetrics-text;q=x", "text"),
    ],
)
def test_openmetrics_is_given_to_whoever_prefers_it(accept: str, form: str) -> None:
    assert form_of(accept) == form
