# SPDX-License-Identifier: Apache-2.0
"""All pages: the index names each, every link leads to a heading, every command in a block exists.

Spans `docs/`, README.md and CONTRIBUTING.md.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from stoker import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")))
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The names that the headings of a page have in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).strip().replace(" ", "-") for each in headings}


def commands(page: Path) -> Iterator[str]:
    """The lines of code blocks that call stoker, each without its comment."""
    fenced = False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            words = line.strip().removeprefix("sudo ").removeprefix("$ ")
            if words.startswith("stoker "):
                yield re.sub(r"\s+#.*", "", words)


def unknown(command: str) -> str:
    """The first word of a command that `stoker` does not know as a verb; empty if it knows all."""
    group: click.Command = main.cli
    words = [word for word in shlex.split(command)[1:] if not word.startswith("-")]
    with click.Context(group) as context:
        for word in words:
            if not isinstance(group, click.Group):
                return ""
            found = group.get_command(context, word)
            if found is None:
                return "" if word.isupper() or word.startswith(("[", "<")) else word
            group = found
    return ""


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    pages = [*DOCS.glob("user/*.md"), *DOCS.glob("operator/*.md"), *DOCS.glob("developer/*.md")]
    assert [page for page in pages if f"({page.relative_to(DOCS)})" not in index] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_page_and_a_heading(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if target.startswith(("http", "mailto:")):
            continue
        path, _, heading = target.partition("#")
        found = (page.parent / path) if path else page
        assert found.exists(), target
        assert not heading or heading in anchors(found), target


def test_commands_in_blocks_have_verbs_that_exist() -> None:
    found = [(page.name, command) for page in PAGES for command in commands(page)]
    assert len(found) > 50
    assert [(name, command) for name, command in found if unknown(command)] == []


def test_an_unknown_verb_is_noticed() -> None:
    assert unknown("stoker queue sett prod") == "sett"
    assert unknown("stoker fly") == "fly"
    assert unknown("stoker queue set prod --order fifo") == ""
