# SPDX-License-Identifier: Apache-2.0
"""The number of an agent's start grows, whatever the clock says."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.state import incarnation
from stoker.agent.state.incarnation import STEP
from stoker.native.errors import Refused

HOUR = 3_600_000_000_000
NOW = 1_700_000_000_000_000_000


def test_it_begins_with_the_date_and_goes_on_when_the_date_goes_back(tmp_path: Path) -> None:
    path = tmp_path / "incarnation"
    dates = (NOW, NOW + HOUR, NOW, 0, NOW + 2 * HOUR)
    assert [incarnation.begin(path, date) for date in dates] == [
        NOW,
        NOW + HOUR,
        NOW + HOUR + STEP,
        NOW + HOUR + 2 * STEP,
        NOW + 2 * HOUR,
    ]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("torn", [b"", b"\0" * 20, b"17", b"x" * 20])
def test_a_torn_file_is_the_beginning(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "incarnation"
    path.write_bytes(torn)
    assert incarnation.begin(path, NOW) == NOW
    assert incarnation.begin(path, NOW) == NOW + STEP


def test_what_cannot_be_stored_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="missing"):
        incarnation.begin(tmp_path / "missing" / "incarnation", NOW)
