# SPDX-License-Identifier: Apache-2.0
"""Deciding changes nothing: a request with a defect is answered with it, and others are taken."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events
from stoker.mesh.replica.works.submit_work import SubmitWork
from tests.mesh.bench import ALICE, BOB, Bench


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    return Bench(signer).lead().hello()


@pytest.mark.parametrize("where", ["refresh", "blobs", "answer"])
def test_a_defect_of_one_request_is_its_own_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Good requests of other users in the same entry are taken, and the replica goes on."""
    real = getattr(SubmitWork, where)

    def broken(work: SubmitWork, *arguments: Any) -> Any:
        if work.token == "bad":
            raise OverflowError("int too large to convert to float")
        return real(work, *arguments)

    monkeypatch.setattr(SubmitWork, where, broken)
    bench.answering = False
    for token in ("first", "good", "bad", "other"):
        bench.submit(token, owner=BOB if token == "other" else ALICE)
    bench.answering = True
    while bench.appends:
        bench.feed(bench.land())
    assert bench.replies["bad"].code == "internal"
    assert [bench.replies[token].state for token in ("first", "good", "other")]
    bench.submit("later")
    assert bench.replies["later"].job > 3


def test_a_defect_while_a_request_is_read_is_its_own_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("stoker.mesh.replica.requests.user_works.cancel_works", broken)
    bench.feed(events.CancelRequested("c", [1], ""))
    assert bench.replies["c"].code == "internal"
    assert bench.replica.role == "leading"
