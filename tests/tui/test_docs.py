# SPDX-License-Identifier: Apache-2.0
"""The user pages name every verb, every option of a submit and every exit code there is."""

from __future__ import annotations

import re
from pathlib import Path

import click

from stoker import main
from stoker.mesh.wire import subjects
from stoker.tui.calls import views
from stoker.tui.commands import start_commands

DOCS = Path(__file__).parents[2] / "docs"
USER = DOCS / "user"
COMMANDS = (USER / "commands.md").read_text()


def test_every_verb_is_on_the_page() -> None:
    named = set(re.findall(r"`([a-z-]+)[ `]", COMMANDS))
    assert set(main.VERBS) - named == set()


def test_every_option_of_a_submit_is_on_the_page() -> None:
    options = {
        option
        for command in (start_commands.run_command, start_commands.submit_command)
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and option not in ("--state", "--output", "--interactive")
    }
    assert {option for option in options if f"`{option}" not in COMMANDS} == set()


def test_the_options_of_up_are_on_the_operator_page_in_the_order_of_help() -> None:
    page = (DOCS / "operator" / "node.md").read_text().split("## Options of `up`")[1]
    table = re.findall(r"^\| `(--[^`]+)` \|", page.split("\n## ")[0], re.MULTILINE)
    up = main.cli.get_command(click.Context(main.cli), "up")
    assert up is not None
    options = [each for each in up.params if isinstance(each, click.Option)]
    assert table == [" ".join(filter(None, (each.opts[0], each.metavar))) for each in options]


def test_every_exit_code_of_run_is_on_the_page() -> None:
    codes = COMMANDS.split("## Exit codes")[1]
    for code in (views.TIMED_OUT, views.LOST, views.NOT_STARTED, views.NOT_FOUND):
        assert str(code) in codes


def test_every_request_is_on_the_page() -> None:
    page = (USER / "submitting-over-nats.md").read_text()
    for noun, verb in subjects.USER_REQUESTS:
        full, short = f"`{subjects.request(noun, verb)}`", f"`.{noun}.{verb}`"
        assert full in page or short in page, full


def test_every_metric_is_on_the_page() -> None:
    """The names are read as text, since a viewer may not import the probes."""
    names = (DOCS.parent / "probes/otlp/metric_names.py").read_text()
    page = (DOCS / "operator" / "metrics.md").read_text()
    found = re.findall(
        r'"((?:hw|stoker|process)\.[a-z._]+)",\s*"[^"]+",\s*"(?:gauge|sum|updown|histogram)"', names
    )
    assert len(found) > 15
    assert [name for name in found if f"`{name}`" not in page] == []
