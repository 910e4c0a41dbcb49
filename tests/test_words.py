# SPDX-License-Identifier: Apache-2.0
"""Words have one meaning: the glossary's tables, held against the names in the code.

A retired word may not be part of the name of a module, class or function of the product, and a
class name stands for one thing. What the glossary says to be somewhere has to be there.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from tests.statements import statements

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/developer/glossary.md"
FOLDERS = ("agent", "mesh", "native", "probes", "scheduler", "tui")
NOUNS = {"ping", "setting", "tracing"}
"""Modules whose name ends in -ing and is a noun of the field all the same."""


def rows(title: str) -> list[list[str]]:
    """The cells of the table below a heading of the page, without its own heading."""
    section = PAGE.read_text().split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


RETIRED = {word.strip() for row in rows("Retired words") for word in row[0].split(",")}
MODULES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def words(name: str) -> set[str]:
    """The words of an identifier: `LogsQuery` and `logs_query` are logs and query."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return {part.lower() for part in parts}


def classes(path: Path) -> list[str]:
    """Public classes at the top of a module."""
    body = ast.parse(path.read_text()).body
    return [n.name for n in body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]


def named(path: Path) -> list[str]:
    """The module's own name, and those of its classes, functions and methods."""
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    tree = ast.parse(path.read_text())
    return [path.stem, *(n.name for n in statements(tree) if isinstance(n, kinds))]


def test_the_glossary_is_in_order_and_every_place_is_there() -> None:
    found = rows("Words")
    assert len(found) > 60 and all(len(row) == 3 for row in found)
    assert [row[0] for row in found] == sorted((row[0] for row in found), key=str.lower)
    places = [row[2].strip("`") for row in found]
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_no_name_carries_a_retired_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in MODULES
        for name in named(path)
        if words(name) & RETIRED
    ]
    assert found == []


def test_no_module_is_named_by_a_gerund() -> None:
    last = {path: path.stem.rsplit("_", 1)[-1] for path in MODULES}
    gerunds = [str(p.relative_to(ROOT)) for p, word in last.items() if word.endswith("ing")]
    assert [name for name in gerunds if Path(name).stem not in NOUNS] == []


def test_a_class_name_stands_for_one_thing() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for name in classes(path):
            places[name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
