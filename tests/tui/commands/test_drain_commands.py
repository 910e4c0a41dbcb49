# SPDX-License-Identifier: Apache-2.0
"""The short verbs of a drain send what the long ones send, and say what stays."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner, Result

from stoker.main import cli


@pytest.fixture
def asked() -> list[dict[str, Any]]:
    """The drains that a node was asked for, in their order."""
    return []


@pytest.fixture
def run(node: Any, fakes: Any, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line, before a node with one job that may run only once."""
    for name, value in node.environment.items():
        monkeypatch.setenv(name, value)
    stays = ({"job": 7, "why": "it may not run again (--restart never)"},)

    def drained(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return {"changed": True}

    def listed(_: dict[str, Any]) -> dict[str, Any]:
        view = fakes.node_view("a") | {"drained": "on request", "jobs": 1, "staying": stays}
        return {"nodes": [view]}

    def no_devices(_: dict[str, Any]) -> dict[str, Any]:
        return {"devices": []}

    node.answers |= {"node.drain": drained, "node.list": listed, "device.list": no_devices}

    def call(*argv: str) -> Result:
        return CliRunner().invoke(cli, argv)

    return call


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (("drain", "a"), ("node", "drain", "a", "--move")),
        (
            ("drain", "a", "--grace", "30s", "--reason", "new fans"),
            ("node", "drain", "a", "--move", "--grace", "30s", "--reason", "new fans"),
        ),
        (("undrain", "a"), ("node", "undrain", "a")),
    ],
)
def test_a_short_verb_sends_and_says_what_the_long_one_does(
    run: Any, asked: list[dict[str, Any]], short: tuple[str, ...], long: tuple[str, ...]
) -> None:
    said = [run(*short), run(*long)]
    assert [each.exit_code for each in said] == [0, 0], said[0].output
    assert asked[0] == asked[1]
    assert said[0].output == said[1].output


def test_a_drain_moves_jobs_and_names_those_that_stay(
    run: Any, asked: list[dict[str, Any]]
) -> None:
    said = " ".join(run("drain", "a", "--grace", "30s").output.split())
    assert asked[0]["move"] is True and asked[0]["grace_s"] == 30.0
    assert "drain of a: done" in said and "job 7 stays: it may not run again" in said
    run("node", "drain", "a")
    assert not asked[1].get("move"), "the long verb moves nothing unless it is told to"
