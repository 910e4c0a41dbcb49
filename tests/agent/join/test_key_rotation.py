# SPDX-License-Identifier: Apache-2.0
"""A host whose key is not changed by this verb is told what changes it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.agent.join import key_rotation
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import broker_address
from stoker.native.errors import Refused


@pytest.fixture
def where() -> Iterator[StateFolder]:
    with tempfile.TemporaryDirectory(prefix="stoker-test-") as folder:
        yield state_folder.locate(Path(folder, "state"))


@pytest.mark.parametrize(
    ("servers", "says", "helps"),
    [
        (3, "first is a server", "`stoker cluster remove`, `stoker down`, `stoker cluster revoke`"),
        (1, "first is the only server", "`stoker cluster backup` and `restore`"),
    ],
)
def test_a_server_keeps_its_key_and_hears_what_changes_it(
    where: StateFolder, servers: int, says: str, helps: str
) -> None:
    broker_address.init(where, "127.0.0.2", None, "first", servers)
    key = where.key("agent").read_bytes()
    with pytest.raises(Refused, match=says) as caught:
        key_rotation.rotate(where)
    assert helps in caught.value.hint
    assert where.key("agent").read_bytes() == key
