# SPDX-License-Identifier: Apache-2.0
"""A word that is no verb of `node` is told with those there are."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from stoker.tui.commands.node_commands import node_command


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("rename", "n1"), "'rename' is no verb of `node`: drain, evict, label, remove"),
    ],
)
def test_a_word_that_is_no_verb_is_not_taken_for_a_node(words: tuple[str, ...], says: str) -> None:
    done = CliRunner().invoke(node_command, words)
    assert done.exit_code == 2 and says in " ".join(done.output.split())
