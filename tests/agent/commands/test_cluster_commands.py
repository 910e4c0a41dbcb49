# SPDX-License-Identifier: Apache-2.0
"""The verbs `cluster token` and `cluster join`: how a token is read, and that none is shown."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from stoker.agent.commands import cluster_commands
from stoker.agent.join import newcomer
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.mesh.identity import identity
from stoker.mesh.identity.join_token import JoinToken
from stoker.native.errors import BadRequest

GUEST, KEY = (identity.of_raw(bytes([number]) * 32) for number in (1, 2))
TOKEN = JoinToken("10.0.0.5", 21234, b"f" * 32, GUEST, KEY)


@pytest.mark.parametrize(("text", "seconds"), [("30m", 1800), ("1h", 3600), ("7d", 604_800)])
def test_a_life_is_read(text: str, seconds: int) -> None:
    assert cluster_commands.parse_life(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1", "1w", "-1h", "1.5h", "\u0661h", "9999999d"])
def test_other_texts_are_no_life(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time such as"):
        cluster_commands.parse_life(text)


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The (token, name) of each join that would have been tried."""
    seen: list[tuple[str, str]] = []

    def join(where: StateFolder, token: JoinToken, name: str, address: str) -> ClusterFile:
        assert not address
        seen.append((token.text, name))
        return ClusterFile("c", "second", "", brokers=("tls://10.0.0.5:21234",), joined=True)

    monkeypatch.setattr(newcomer, "join", join)
    return seen


@pytest.mark.parametrize("way", ["input", "dash", "file", "argument"])
def test_the_token_is_read_in_each_way(
    joined: list[tuple[str, str]], tmp_path: Path, way: str
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN.text + "\n")
    words = {
        "input": [], "dash": ["-"], "file": ["--token-file", str(file)], "argument": [TOKEN.text],
    }[way]  # fmt: skip
    done = CliRunner().invoke(
        cluster_commands.cluster_join_command,
        ["--state", str(tmp_path / "state"), "--name", "gpu", *words],
        input=TOKEN.text if way in ("input", "dash") else "",
    )
    assert done.exit_code == 0, done.output
    assert joined == [(TOKEN.text, "gpu")]
    assert "node second of cluster c: its broker is tls://10.0.0.5:21234" in done.output
    assert TOKEN.text not in done.output


def test_a_damaged_token_is_not_shown(joined: list[tuple[str, str]], tmp_path: Path) -> None:
    words = ["--state", str(tmp_path / "state"), "-"]
    done = CliRunner().invoke(cluster_commands.cluster_join_command, words, input=TOKEN.text[:-3])
    assert isinstance(done.exception, BadRequest)
    assert "cut or mistyped" in str(done.exception)
    assert TOKEN.text[20:40] not in str(done.exception) + done.output
    assert joined == []


def test_a_missing_file_and_two_tokens_are_refused(tmp_path: Path) -> None:
    run = CliRunner().invoke
    command, state = cluster_commands.cluster_join_command, ["--state", str(tmp_path / "state")]
    gone = run(command, [*state, "--token-file", str(tmp_path / "gone")])
    assert gone.exit_code == 2 and "No such file" in gone.output
    both = run(command, [*state, "--token-file", str(tmp_path / "gone"), TOKEN.text])
    assert both.exit_code == 2 and TOKEN.text not in both.output
