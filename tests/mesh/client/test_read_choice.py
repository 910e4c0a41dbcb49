# SPDX-License-Identifier: Apache-2.0
"""Where a client's requests go: only reads that any scheduler can answer go where it chose."""

from __future__ import annotations

import pytest

from stoker.mesh.client.read_choice import AT_THE_LEADER, ReadChoice
from stoker.mesh.wire import schema
from stoker.native.errors import BadRequest

AT = "41424a4b4e4d5655"
GET = schema.GetRequest(job=1)


def test_without_a_choice_everything_goes_to_the_leader() -> None:
    assert AT_THE_LEADER.applied("job", "get", GET) == ("stoker.v1.job.get", GET)


def test_a_read_goes_to_the_chosen_scheduler() -> None:
    subject, request = ReadChoice(AT).applied("job", "get", GET)
    assert subject == f"stoker.v1.read.{AT}.job.get" and request == GET


def test_a_stale_read_says_so_and_goes_to_any_scheduler() -> None:
    subject, request = ReadChoice(stale=True).applied("job", "list", schema.ListRequest())
    assert subject == "stoker.v1.read.any.job.list"
    assert request == schema.ListRequest(stale=True)


def test_what_the_leader_alone_can_answer_goes_to_the_leader() -> None:
    choice = ReadChoice(AT, stale=True)
    traced = schema.GetRequest(job=1, trace=True)
    assert choice.applied("job", "get", traced) == ("stoker.v1.job.get", traced)
    nodes = schema.NodeRequest()
    assert choice.applied("node", "list", nodes) == ("stoker.v1.node.list", nodes)
    cancel = schema.CancelRequest(select="1")
    assert choice.applied("job", "cancel", cancel) == ("stoker.v1.job.cancel", cancel)


def test_a_choice_that_names_no_scheduler_is_refused() -> None:
    with pytest.raises(BadRequest, match="names no scheduler"):
        ReadChoice("s1").applied("job", "get", GET)
