# SPDX-License-Identifier: Apache-2.0
"""All pages: whatever they name is there: pages, headings, commands, files, modules, classes.

Spans `docs/`, README.md and CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
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
FOLDERS = ("agent", "generate", "mesh", "native", "probes", "scheduler", "tui")
"""The folders whose modules and classes are the product."""
PLACES = (*FOLDERS, "docs", "examples", "src", "tests")
"""The folders of the repository that a path on a page can begin with."""
SOURCE = re.compile(r"(?<![\w./~<>-])[a-z]\w*(?:/[\w-]+)*\.(?:py|c|h|cpp)\b")
EXAMPLES = {"train.py"}
"""Programs of a reader, in commands of the pages."""
MODULE = re.compile(rf"\bstoker\.((?:{'|'.join(FOLDERS)})(?:\.\w+)*)")
CLASS = re.compile(r"(?<![\w-])[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)*\b")
NOT_OURS = {"False", "Hz", "None", "Path", "Perfetto", "True"}
"""Words with a capital in the reference's code blocks that name no class of the product."""
METRICS = {
    *("agent.check", "agent.events", "agent.threads"),
    *("scheduler.events", "scheduler.leads"),
}
"""Names of metrics that look like those of modules."""


def anchors(page: Path) -> set[str]:
    """The names that the headings of a page have in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).strip().replace(" ", "-") for each in headings}


def commands(page: Path) -> Iterator[str]:
    """The lines of code blocks that call stoker, each without its comment. In a console's block the
    other lines are output."""
    fenced = console = False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            fenced, console = not fenced, line == "```console"
        elif console and not line.startswith("$ "):
            continue
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


def quoted_paths(page: Path) -> Iterator[str]:
    """Paths in backticks that begin with a folder of the repository, without a function's name."""
    for quoted in re.findall(r"`([^`\n]+)`", page.read_text()):
        for word in quoted.split():
            path = word.partition("::")[0].strip(",.;:")
            if path.partition("/")[0] in PLACES and "/" in path:
                yield path


def is_there(path: str) -> bool:
    """Return whether a path exists; `<name>` in it stands for any name."""
    return any(True for _ in ROOT.glob(re.sub(r"<[^>]*>", "*", path).rstrip("/")))


def sources() -> set[str]:
    """Every source file, and each end of its path: pages name files of one folder by their ends."""
    found = set()
    for folder in PLACES:
        for path in (ROOT / folder).rglob("*.*"):
            parts = path.relative_to(ROOT).parts
            found |= {"/".join(parts[start:]) for start in range(len(parts))}
    return found


def is_module(name: str) -> bool:
    """Return whether a dotted name below `stoker` is a module, a folder, or part of a module."""
    parts = re.sub(r"\.[A-Z].*", "", name).split(".")
    whole, above = ROOT.joinpath(*parts), ROOT.joinpath(*parts[:-1])
    files = (path.with_suffix(kind) for path in (whole, above) for kind in (".py", ".pyi"))
    return whole.is_dir() or (len(parts) > 1 and any(path.is_file() for path in files))


def product_classes() -> set[str]:
    """The names of all classes and type aliases of the product, the C modules' stubs included."""
    found = set()
    for folder in FOLDERS:
        for path in (path for kind in ("*.py", "*.pyi") for path in (ROOT / folder).rglob(kind)):
            for node in ast.parse(path.read_text()).body:
                targets = node.targets if isinstance(node, ast.Assign) else []
                found |= {each.id for each in targets if isinstance(each, ast.Name)}
                if isinstance(node, ast.ClassDef):
                    found.add(node.name)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    found.add(node.target.id)
    return found


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_in_backticks_exist(page: Path) -> None:
    assert [path for path in quoted_paths(page) if not is_there(path)] == []


def named_tests(page: Path) -> list[str]:
    """The tests that a page names in backticks, each by its file and its function."""
    return re.findall(r"`(tests/[\w/]+\.py::test_\w+)`", page.read_text())


def is_test(name: str) -> bool:
    """Return whether a file of tests has a function of this name."""
    file, _, function = name.partition("::")
    path = ROOT / file
    return path.is_file() and f"def {function}(" in path.read_text()


def test_tests_named_on_the_pages_exist() -> None:
    found = [(page.name, name) for page in PAGES for name in named_tests(page)]
    assert len(found) > 50
    assert [(page, name) for page, name in found if not is_test(name)] == []


def test_a_test_that_is_gone_is_noticed() -> None:
    assert is_test("tests/test_docs.py::test_a_test_that_is_gone_is_noticed")
    assert not is_test("tests/test_docs.py::test_that_is_gone")
    assert not is_test("tests/test_gone.py::test_tests_named_on_the_pages_exist")


def test_the_first_hour_has_fifteen_rows_of_which_each_names_a_test() -> None:
    page = (DOCS / "developer/first-hour.md").read_text()
    lines = [line for line in page.splitlines() if re.match(r"\| \d", line)]
    numbers = {int(line.split()[1]) for line in lines}
    assert numbers == set(range(1, 16))
    assert [line for line in lines if not re.search(r"`tests/\S+::test_\w+` \|$", line)] == []


def test_source_files_named_anywhere_exist() -> None:
    found = [(page.name, name) for page in PAGES for name in SOURCE.findall(page.read_text())]
    assert len(found) > 100
    known = sources() | EXAMPLES
    assert [(page, name) for page, name in found if name not in known] == []


def test_modules_on_the_pages_exist() -> None:
    found = [(page.name, name) for page in PAGES for name in MODULE.findall(page.read_text())]
    assert len(found) > 30
    wrong = [(page, name) for page, name in found if not is_module(name)]
    assert [(page, name) for page, name in wrong if name not in METRICS] == []


def test_classes_in_the_reference_exist() -> None:
    page = (DOCS / "developer/reference.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    found = {name for block in blocks for name in CLASS.findall(block)} - NOT_OURS
    assert len(found) > 50
    assert sorted(found - product_classes()) == []


def test_a_path_or_a_module_that_is_gone_is_noticed() -> None:
    assert is_there("tests/<folder>/test_<module>.py") and is_there("native/core/")
    assert not is_there("native/core/gone.c")
    assert is_module("scheduler.core.Limits") and not is_module("scheduler.gone.Limits")
