# SPDX-License-Identifier: Apache-2.0
"""The agent begins with the schedulers of which it was told last."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.state import told_schedulers
from stoker.native.errors import Corrupt

CONFIGURED = ("A", "B", "C")


def test_what_was_told_counts_until_the_cluster_file_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "schedulers.json"
    assert told_schedulers.load(path, CONFIGURED) == CONFIGURED
    told_schedulers.store(path, ("", "B", "C", "D"), CONFIGURED)
    assert told_schedulers.load(path, CONFIGURED) == ("", "B", "C", "D")
    assert told_schedulers.load(path, ("X",)) == ("X",)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"schedulers": [1], "instead_of": []}'])
def test_a_damaged_file_is_refused_with_what_to_do(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "schedulers.json"
    path.write_bytes(data)
    with pytest.raises(Corrupt, match=r"schedulers\.json") as caught:
        told_schedulers.load(path, CONFIGURED)
    assert caught.value.hint.startswith("Remove it")
