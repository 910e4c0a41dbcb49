# SPDX-License-Identifier: Apache-2.0
"""The digest of what a seed runs: which files it covers, and that each of them changes it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.agent.sim import code_digest
from stoker.agent.sim.code_digest import ROOT, modules_of

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


def test_each_file_changes_the_digest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    copied(tmp_path)
    monkeypatch.setattr(code_digest, "PACKAGE", tmp_path)
    seen = {before := code_digest.code_digest()}
    for name in ("mesh/replica/replica.py", "agent/sim/world.py", "native/core/ledger/node.c"):
        with (tmp_path / name).open("a") as file:
            file.write("\n")
        seen.add(code_digest.code_digest())
    assert len(seen) == 4
    with (tmp_path / "tui" / "unrelated.py").open("w") as file:
        file.write("import os\n")
    assert code_digest.code_digest() in seen - {before}


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
