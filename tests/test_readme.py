# SPDX-License-Identifier: Apache-2.0
"""The first page: every figure has a target, a verdict and a method, whose command exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from stoker import main

ROOT = Path(__file__).resolve().parents[1]
METHODS = "docs/measurements/figures.md"
MARK = " *"
"""A command that `make bench` runs stands before this."""
CELL_MAX = 62
"""The most characters of a cell, a link counted by its text."""
VERDICTS = re.compile(r"met|missed.*|published")


def figures() -> list[list[str]]:
    """The cells of the table of figures, without its head."""
    text = (ROOT / "README.md").read_text().partition("\n## Figures\n")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in rows][1:]


def anchor(heading: str) -> str:
    """The name that a heading has in links."""
    return re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")


def methods() -> dict[str, str]:
    """Anchor -> the text of each section of the page of methods."""
    parts = (ROOT / METHODS).read_text().split("\n## ")[1:]
    return {anchor(part.partition("\n")[0]): part.partition("\n")[2] for part in parts}


def commands() -> Iterator[tuple[str, bool]]:
    """(command, whether `make bench` is said to run it) of every method."""
    for text in methods().values():
        for found in re.finditer(r"`((?:stoker (?:bench|sim)|pytest) [^`]+)`( \*)?", text):
            yield found[1], found[2] == MARK


def test_every_figure_has_a_target_a_verdict_and_a_method() -> None:
    rows, known = figures(), methods()
    assert len(rows) > 20
    for row in rows:
        assert len(row) == 4 and all(row), row
        link = re.fullmatch(rf"\[(.+)\]\({re.escape(METHODS)}#(.+)\)", row[0])
        assert link is not None and link[2] in known, row[0]
        assert VERDICTS.fullmatch(row[3]), row
        assert all(len(cell) <= CELL_MAX for cell in (link[1], *row[1:])), row


def test_every_method_has_a_figure_and_a_command() -> None:
    linked = {row[0].rpartition("#")[2].rstrip(")") for row in figures()}
    assert set(methods()) == linked
    for name, text in methods().items():
        assert re.search(r"`((stoker|pytest) |make soak)", text), f"nothing repeats {name}"


def test_a_missed_target_says_so_on_both_pages() -> None:
    known = methods()
    for row in figures():
        if row[3].startswith("missed") and "busy" not in row[3] and "once" not in row[3]:
            assert "missed" in known[row[0].rpartition("#")[2].rstrip(")")], row


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


def test_make_bench_runs_what_the_methods_say_it_runs() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nbench:")[2].partition("\n\n")[0]
    run = {line.removesuffix(" --json") for line in re.findall(r"@\$\(RUN\)(.+)", recipe)}
    assert run == {command for command, marked in commands() if marked}


def test_slow_rounds_are_a_target() -> None:
    assert any("`make soak`" in text for text in methods().values())
    assert "\nsoak:" in (ROOT / "Makefile").read_text()
