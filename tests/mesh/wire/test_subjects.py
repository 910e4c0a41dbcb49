# SPDX-License-Identifier: Apache-2.0
"""Subjects: every name is one token and can be restored from it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.mesh.wire import subjects
from stoker.native.errors import BadRequest

NAMES = st.text(min_size=1, max_size=16).filter(
    lambda name: (
        0 < len(name.encode(errors="replace")) <= subjects.NAME_BYTES_MAX
        and name.encode(errors="ignore").decode() == name
    )
)
TOKEN = re.compile(r"[a-z0-9_-]+", re.ASCII)


@given(NAMES)
def test_a_name_is_one_plain_token_and_comes_back(name: str) -> None:
    token = subjects.token(name)
    assert TOKEN.fullmatch(token)
    assert subjects.name_of(token) == name


@given(NAMES, NAMES)
def test_two_names_never_share_a_token(one: str, other: str) -> None:
    assert (subjects.token(one) == subjects.token(other)) == (one == other)


@given(NAMES, st.sampled_from(subjects.REQUESTS))
def test_user_requests(name: str, request: tuple[str, str]) -> None:
    subject = subjects.user_request(name, *request)
    assert subjects.parse_user_request(subject) == (name, *request, False)
    assert subject.count(".") == 5


@given(NAMES, st.integers(0, (1 << 64) - 1), st.sampled_from(subjects.REQUESTS))
def test_reads_at_a_scheduler(name: str, number: int, request: tuple[str, str]) -> None:
    at = subjects.check_at(subjects.at(number))
    subject = subjects.user_read(name, at, *request)
    if request in subjects.CHOSEN_READS:
        assert subjects.parse_user_request(subject) == (name, *request, True)
        assert subject.startswith(subjects.reads_of_user(name, at).removesuffix("*.*"))
    else:
        with pytest.raises(BadRequest, match="no such request"):
            subjects.parse_user_request(subject)


@pytest.mark.parametrize("text", ["", "*", ">", "Any", "1", "0" * 15, "G" * 16, "a.b", "0" * 17])
def test_what_names_no_scheduler_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="names no scheduler"):
        subjects.check_at(text)


@given(NAMES, st.sampled_from(subjects.QUERIES))
def test_node_subjects(name: str, what: str) -> None:
    assert subjects.parse_query(subjects.query(name, what)) == (name, what)
    assert subjects.parse_observation(subjects.observation(name)) == name
    assert subjects.parse_lease_request(subjects.lease_request(name)) == name
    builders = {
        "hello": subjects.hello,
        "outcome": subjects.outcome,
        "range": subjects.log_range,
    }
    assert tuple(builders) == subjects.NODE_REQUESTS
    for kind, build in builders.items():
        assert subjects.parse_node_request(build(name)) == (name, kind)


@given(st.text(max_size=80))
def test_any_other_text_is_refused_or_parsed_back(text: str) -> None:
    for parse in (
        subjects.parse_user_request,
        subjects.parse_node_request,
        subjects.parse_query,
        subjects.parse_lease_request,
    ):
        with pytest.raises(BadRequest):
            parse(text)
    try:
        name = subjects.name_of(text)
    except BadRequest:
        return
    assert subjects.token(name) == text


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("alice", "alice"),
        ("www-data", "www-data"),
        ("_apt", "_apt"),
        ("Alice", "x--416c696365"),
        ("a.b", "x--612e62"),
        ("*", "x--2a"),
        (">", "x--3e"),
        ("x--61", "x--782d2d3631"),
        ("-a", "x--2d61"),
    ],
)
def test_tokens(name: str, token: str) -> None:
    assert subjects.token(name) == token


@pytest.mark.parametrize("token", ["x--61", "x--zz", "x--C3A9", "A", "", "x--", "x--c3", "a b"])
def test_tokens_that_no_name_has(token: str) -> None:
    with pytest.raises(BadRequest):
        subjects.name_of(token)


@pytest.mark.parametrize("name", ["", "a" * 65, "é" * 33])
def test_names_have_a_size(name: str) -> None:
    with pytest.raises(BadRequest, match="1 to 64 bytes"):
        subjects.token(name)


def test_inboxes_are_apart() -> None:
    names = ["scheduler", "agent.n1", "agent.n1.b", "agent.n2"]
    assert len({subjects.inbox(name) for name in names}) == len(names)
    assert subjects.inbox("agent.n1.b") == "_INBOX.agent.x--6e312e62"


def test_each_scheduler_has_a_subject_of_its_own() -> None:
    found = {subjects.peer(number) for number in (0, 1, 2**64 - 1)}
    assert len(found) == 3
    head = subjects.EVERY_PEER.removesuffix("*")
    assert all(each.startswith(head) and "." not in each.removeprefix(head) for each in found)
