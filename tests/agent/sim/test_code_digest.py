# SPDX-License-Identifier: Apache-2.0
"""The digest of what a seed runs: which files it covers, and that each of them changes it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.agent.sim import code_digest
from stoker.agent.sim.code_digest import ROOT, modules_of, statements

FILES = ("mesh/replica/replica.py", "native/core/ledger/node.c")
LOADED = """
import sys
from stoker.agent.sim.world import run_seed
run_seed(0)
names = [name for name, each in sys.modules.items() if name.startswith("stoker.")]
print(*(name for name in names if not sys.modules[name].__file__.endswith("/__init__.py")))
"""


def test_every_module_that_a_seed_loads_is_covered() -> None:
    told = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, check=True, text=True
    )
    written = {name for name in told.stdout.split() if name != code_digest.CORE}
    assert written - set(modules_of(ROOT)) == set()
    assert {"stoker.mesh.replica.replica", "stoker.agent.jobs.node_core", ROOT} <= written


@pytest.mark.soak
def test_each_file_changes_the_digest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    copied(tmp_path)
    monkeypatch.setattr(code_digest, "PACKAGE", tmp_path)
    seen = {before := code_digest.code_digest()}
    for name in FILES:
        with (tmp_path / name).open("a") as file:
            file.write("int a = 1;\n" if name.endswith(".c") else "A = 1\n")
        seen.add(code_digest.code_digest())
    assert len(seen) == 1 + len(FILES)
    with (tmp_path / "tui" / "unrelated.py").open("w") as file:
        file.write("import os\n")
    assert code_digest.code_digest() in seen - {before}


PYTHON = """
def f(a):
    return a
"""
SILENT_PYTHON = """
# A comment.
def f(a):
    \"\"\"Return it.\"\"\"

    return a  # as it is
"""
C = """
#define A "/*"
int a = '"'; int b = 2;
"""
SILENT_C = """
/* A comment "
 * of lines. */
#define A "/*" // and another

int a = '"'; int b = 2;
"""


@pytest.mark.parametrize(
    ("name", "bare", "told"), [("a.py", PYTHON, SILENT_PYTHON), ("a.c", C, SILENT_C)]
)
def test_words_for_a_person_do_not_change_the_digest(
    tmp_path: Path, name: str, bare: str, told: str
) -> None:
    def of(text: str) -> bytes:
        (tmp_path / name).write_text(text)
        return statements(tmp_path / name)

    assert of(bare) == of(told)
    assert of(bare.replace("a", "b")) != of(told)


@pytest.mark.parametrize("text", ["/* {} */", "// {}", '\\" // {}'])
def test_what_looks_like_a_comment_in_a_string_counts(tmp_path: Path, text: str) -> None:
    file, seen = tmp_path / "a.c", set()
    for word in ("one", "two"):
        file.write_text(f'const char *text = "{text.format(word)}";\n')
        seen.add(statements(file))
    assert len(seen) == 2


def test_without_sources_the_compiled_core_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copied(tmp_path)
    monkeypatch.setattr(code_digest, "PACKAGE", tmp_path)
    with_sources = code_digest.code_digest()
    shutil.rmtree(tmp_path / "native" / "core")
    without = code_digest.code_digest()
    assert without != with_sources
    monkeypatch.setattr(code_digest, "CORE", "stoker.native._clocks")
    assert code_digest.code_digest() != without


def copied(to: Path) -> None:
    """Copy what a checkout has of the parts that a seed may run."""
    for part in ("agent", "mesh", "native", "scheduler", "tui"):
        shutil.copytree(code_digest.PACKAGE / part, to / part, ignore=only_sources)


def only_sources(folder: str, names: list[str]) -> list[str]:
    """Return the names that are neither folders nor sources."""
    kinds = (".py", ".c", ".h", ".cpp")
    return [n for n in names if not n.endswith(kinds) and not Path(folder, n).is_dir()]
