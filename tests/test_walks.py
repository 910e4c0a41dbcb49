# SPDX-License-Identifier: Apache-2.0
"""The walks of docs/developer/walks.md: every function that they name exists and is reached."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/developer/walks.md"
STEP = re.compile(r"^(\d+)\. (.*?)(?=^\d+\. |\Z)", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([\w/]+\.(?:py|c))::([\w.]+)`")


class Step(NamedTuple):
    """One step of a walk. `by_message`: nothing in the code before it names it."""

    file: str
    function: str
    by_message: bool


def walks() -> dict[str, list[Step]]:
    """The steps of each walk, by its title."""
    found = {}
    for part in PAGE.read_text().split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        steps = []
        for number, (given, words) in enumerate(STEP.findall(text), 1):
            (name,) = NAMED.findall(words)
            assert int(given) == number, f"{title}: step {given}"
            steps.append(Step(*name, "*message*" in words))
        found[title] = steps
    return found


def functions(path: Path) -> set[str]:
    """Functions that a file defines; those of Python with their class."""
    text = path.read_text()
    if path.suffix == ".c":
        return set(re.findall(r"^[a-z][^\n;#]*?\b\*?(\w+)\((?![^{]*;)", text, re.MULTILINE))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    names = set()
    for node in ast.parse(text).body:
        if isinstance(node, kinds):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, kinds)}
    return names


@pytest.mark.parametrize("title", walks())
def test_every_function_of_a_walk_exists(title: str) -> None:
    steps = walks()[title]
    assert len(steps) > 8
    missing = [step for step in steps if step.function not in functions(ROOT / step.file)]
    assert missing == []


@pytest.mark.parametrize("title", walks())
def test_each_step_is_reached_from_the_one_before(title: str) -> None:
    steps = walks()[title]
    for before, step in pairwise(steps):
        name = step.function.rpartition(".")[2]
        mentioned = re.search(rf"\b{name}\b", (ROOT / before.file).read_text())
        assert step.by_message or mentioned, f"{before.file} does not mention {step.function}"
