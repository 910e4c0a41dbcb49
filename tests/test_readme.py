# SPDX-License-Identifier: Apache-2.0
"""The first page: every figure names what repeats it, and that is a command that exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from stoker import main

ROOT = Path(__file__).resolve().parents[1]
MARK = " *"
"""Behind a command that `make bench` runs."""


def figures() -> list[list[str]]:
    """Cells of the table of figures, without its head."""
    text = (ROOT / "README.md").read_text().partition("\n## Figures\n")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in rows][1:]


def commands() -> Iterator[tuple[str, bool]]:
    """(command, whether `make bench` is said to run it) of every figure."""
    for row in figures():
        for found in re.finditer(r"`((?:stoker|pytest) [^`]+)`( \*)?", row[-1]):
            yield found[1], found[2] == MARK


def test_every_figure_says_what_repeats_it() -> None:
    rows = figures()
    assert len(rows) > 15
    for row in rows:
        assert len(row) == 4, row
        assert re.search(r"`((stoker|pytest) |make soak)", row[3]), f"nothing repeats: {row[0]}"


@pytest.mark.parametrize("command", sorted({command for command, _ in commands()}))
def test_what_repeats_a_figure_exists(command: str) -> None:
    program, *words = shlex.split(command)
    if program == "pytest":
        assert all((ROOT / word).is_file() for word in words)
        return
    group: click.Command = main.cli
    with click.Context(group) as context:
        while isinstance(group, click.Group):
            found = group.get_command(context, words.pop(0))
            assert found is not None, command
            group = found
    known = {name for parameter in group.params for name in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= known


def test_make_bench_runs_what_the_figures_say_it_runs() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nbench:")[2].partition("\n\n")[0]
    run = {line.removesuffix(" --json") for line in re.findall(r"@\$\(RUN\)(.+)", recipe)}
    assert run == {command for command, marked in commands() if marked}


def test_slow_rounds_are_a_target() -> None:
    assert any("`make soak`" in row[3] for row in figures())
    assert "\nsoak:" in (ROOT / "Makefile").read_text()
