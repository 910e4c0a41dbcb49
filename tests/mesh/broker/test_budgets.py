# SPDX-License-Identifier: Apache-2.0
"""Budgets: valid values in config.toml, and the room that defaults leave to other users."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.broker import broker_config, budgets
from stoker.mesh.broker.budgets import USERS_AT_LIMIT, Budgets, Seats
from stoker.mesh.replica.works import work_queue
from stoker.native.errors import BadRequest, Busy
from stoker.scheduler.core import Limits


def test_the_promised_number_of_users_fits_each_table() -> None:
    """The share of one user in each table, times USERS_AT_LIMIT, fits the table."""
    one = Budgets()
    for share, table in (
        (one.pending_jobs, Limits().jobs),
        (one.spec_bytes, budgets.SPEC_BYTES_MAX),
        (one.waiters, budgets.WAITERS_MAX),
        (one.proxied, budgets.PROXIED_MAX),
        (one.in_flight, work_queue.QUEUE_MAX),
        (one.in_flight_bytes, work_queue.QUEUE_BYTES_MAX),
        (one.connections, broker_config.CONNECTIONS_MAX),
    ):
        assert share * USERS_AT_LIMIT <= table, (share, table)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[budgets]\nwaiter = 3", "waiter"),
        ("[budgets]\nwaiters = 0", "budgets.waiters is 0"),
        ("[budgets]\nwaiters = -1", "budgets.waiters is -1"),
        ("[budgets]\nwaiters = 1e308", "int"),
        ("[budgets]\nwaiters = 2000000000000", "budgets.waiters"),
        ("[budgets", "config.toml"),
        ("budgets = 3", "config.toml"),
    ],
)
def test_a_wrong_table_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(BadRequest) as caught:
        budgets.read(file)
    assert says in caught.value.message


def test_missing_fields_have_defaults(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    assert budgets.read(file) == Budgets()
    file.write_text("[node]\nlabels = []\n[budgets]\npending_jobs = 7")
    assert budgets.read(file) == Budgets(pending_jobs=7)


def test_seats_are_of_a_user_first_and_of_all_last() -> None:
    seats = Seats("waiters", "held requests", 2, 3)
    for user in ("alice", "alice", "bob"):
        seats.take(user)
    with pytest.raises(Busy, match="alice has 2 held requests"):
        seats.take("alice")
    with pytest.raises(Busy, match="all users together have 3 held requests"):
        seats.take("bob")
    with pytest.raises(Busy, match="all users"):
        seats.take("carol")
    seats.leave("alice")
    seats.take("carol")
    assert (seats.count, set(seats._taken)) == (3, {"alice", "bob", "carol"})
