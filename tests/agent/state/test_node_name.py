# SPDX-License-Identifier: Apache-2.0
"""A node's name is one word everywhere, and any other is refused in one line."""

from __future__ import annotations

import pytest

from stoker.agent.state import node_name
from stoker.native.errors import BadRequest


@pytest.mark.parametrize("name", ["a", "first", "gpu-01_b", "n" * 63])
def test_a_word_is_a_name(name: str) -> None:
    node_name.check(name)


@pytest.mark.parametrize(
    "name", ["", "n" * 64, "a.b", "a b", "*", "x>", "../x", "-n", "First", "ü", "x--61"]
)
def test_what_is_no_word_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(BadRequest, match="cannot be a node's name") as caught:
        node_name.check(name)
    assert caught.value.hint == "1 to 63 of a-z, 0-9, - and _; `--name` sets it"
