# SPDX-License-Identifier: Apache-2.0
"""A leader waits for a majority only so long; whoever follows waits for nobody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stoker.mesh.replica.peers.confirmation_delay import UNCONFIRMED_NS, ConfirmationDelay


def made(role: str) -> tuple[Any, ConfirmationDelay]:
    tail: Any = SimpleNamespace(end=SimpleNamespace(index=5), confirmed=4)
    leadership: Any = SimpleNamespace(role=role)
    delay = ConfirmationDelay(tail, leadership)
    assert not delay.is_too_long(10)
    return tail, delay


def test_an_entry_that_no_majority_confirms_is_waited_for_so_long() -> None:
    for role in ("leading", "electing"):
        _, delay = made(role)
        assert not delay.is_too_long(10 + UNCONFIRMED_NS - 1)
        assert delay.is_too_long(10 + UNCONFIRMED_NS)


def test_each_confirmed_entry_begins_the_wait_anew() -> None:
    tail, delay = made("leading")
    tail.end.index, tail.confirmed = 9, 8
    assert not delay.is_too_long(10 + UNCONFIRMED_NS)
    assert delay.is_too_long(10 + 2 * UNCONFIRMED_NS)


def test_nobody_waits_once_all_is_confirmed_or_another_leads() -> None:
    tail, delay = made("leading")
    tail.confirmed = 5
    assert not delay.is_too_long(10 + 2 * UNCONFIRMED_NS)
    _, other = made("following")
    assert not other.is_too_long(10 + 2 * UNCONFIRMED_NS)
