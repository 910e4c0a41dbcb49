# SPDX-License-Identifier: Apache-2.0
"""Names of attempts' folders, there and back."""

from __future__ import annotations

import pytest

from stoker.agent.jobs.attempt_folders import folder_name, key_of


@pytest.mark.parametrize(("key", "name"), [((7, 1), "7"), ((7, 2), "7.2"), ((10, 13), "10.13")])
def test_there_and_back(key: tuple[int, int], name: str) -> None:
    assert folder_name(*key) == name
    assert key_of(name) == key


@pytest.mark.parametrize("name", ["", ".spare", "0", "7.1", "7.0", "07", "7.", "7.2.3", "x", "٣"])
def test_nothing_else_is_an_attempt(name: str) -> None:
    assert key_of(name) is None
