# SPDX-License-Identifier: Apache-2.0
"""A retired folder starts no more, and no other one is taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.state import retirement, state_folder
from stoker.agent.state.retirement import Retirement
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import own_folder, startup
from stoker.agent.supervise.start_options import StartOptions
from stoker.native.errors import Corrupt, Refused

FOUND = Retirement(1_700_000_000_000_000_000, "/mnt/kept", 41)


@pytest.fixture
def where(tmp_path: Path) -> StateFolder:
    made = state_folder.locate(tmp_path / "state")
    own_folder.load_or_create(_prepared(made), "only")
    return made


def _prepared(where: StateFolder) -> StateFolder:
    state_folder.prepare(where)
    return where


def test_a_folder_without_a_record_is_not_retired(where: StateFolder) -> None:
    retirement.check(where)


def test_no_process_of_a_retired_folder_is_started(where: StateFolder) -> None:
    retirement.retire(where, FOUND)
    with pytest.raises(Refused, match="up to entry 41 went into /mnt/kept on") as refused:
        startup.start(StartOptions(str(where.root)))
    assert str(where.root / retirement.FILE) in refused.value.hint
    assert not where.run.exists()
    (where.root / retirement.FILE).unlink()
    retirement.check(where)


def test_a_damaged_record_starts_nothing(where: StateFolder) -> None:
    retirement.retire(where, FOUND)
    path = where.root / retirement.FILE
    path.write_bytes(path.read_bytes().replace(b"41", b"42"))
    with pytest.raises(Corrupt, match="cannot be read"):
        retirement.check(where)


def test_the_folder_is_whole_with_it(where: StateFolder) -> None:
    retirement.retire(where, FOUND)
    assert state_folder.load(where).node == "only"
