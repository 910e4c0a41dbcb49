# SPDX-License-Identifier: Apache-2.0
"""The words that a shell is offered at TAB, where a node answers and where none does."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from stoker.tui.options import completion
from stoker.tui.options.completion import Offer, offered


def words(offers: list[Offer], begun: str) -> list[str]:
    return [item.value for item in offered(offers, begun)]


def test_only_what_continues_is_offered_and_each_once() -> None:
    offers = [("12", "running a"), ("13", ""), ("12", "again"), ("last", "")]
    assert words(offers, "") == ["12", "13", "last"]
    assert words(offers, "1") == ["12", "13"]
    assert words(offers, "x") == []


def test_no_text_of_a_job_reaches_the_shell_as_more_than_a_word() -> None:
    hostile = ["a b", "a;rm", "$(x)", "a\nplain", "\x1b[2J", "`x`", "a'b", ""]
    assert words([(name, "") for name in hostile], "") == []
    (item,) = offered([("ok", "line\nplain\x1b[2J")], "")
    assert item.help is not None
    assert item.help.isprintable()


def test_a_list_of_jobs_is_continued_at_its_last_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_answers", lambda context, read: [("5", ""), ("7", "")])
    context = click.Context(click.Command("cancel"))
    argument = click.Argument(["selector"])
    found = completion.jobs(context, argument, "1-3,5,")
    assert [item.value for item in found] == ["1-3,5,5", "1-3,5,7"]


def test_without_a_node_nothing_is_offered_and_nothing_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    context = click.Context(click.Command("cancel"))
    context.params["state"] = str(tmp_path)
    argument = click.Argument(["selector"])
    for offer in (completion.jobs, completion.nodes, completion.devices, completion.queues):
        assert offer(context, argument, "") == []
    assert capfd.readouterr() == ("", "")
