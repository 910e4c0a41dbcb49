# SPDX-License-Identifier: Apache-2.0
"""The modules that importing a part of stoker loads, seen from a fresh interpreter.

The import contracts of pyproject.toml hold for what is written; this holds for what happens, also
through a third module. The command line's own start is in test_main.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTING = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print("\\n".join(sorted(sys.modules)))
"""
FIRST = """
import importlib, os, sys
import msgspec, msgspec.json, structlog
for name in sys.argv[1:]:
    assert not any(each.startswith("stoker.") for each in sys.modules)
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0, name
        continue
    importlib.import_module(name)
    os.write(1, (name + "\\n").encode())
    os._exit(0)
"""


def modules_of(folder: str) -> list[str]:
    """Every module of a folder by its dotted name, also those in folders below."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    names = [path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in paths]
    return [f"stoker.{name.removesuffix('.__init__')}" for name in names]


def loaded_by(*names: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LISTING, *names],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def folders_in(loaded: set[str]) -> set[str]:
    return {name.split(".")[1] for name in loaded if name.startswith("stoker.")}


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("native", {"native"}),
        ("scheduler", {"scheduler", "native"}),
        ("probes", {"probes", "native"}),
        ("mesh", {"mesh", "scheduler", "native"}),
        ("tui", {"tui", "mesh", "scheduler", "native"}),
        ("agent", {"agent", "probes", "mesh", "scheduler", "native"}),
    ],
)
def test_a_folder_loads_only_what_is_below_it(folder: str, allowed: set[str]) -> None:
    names = modules_of(folder)
    assert names
    assert folders_in(loaded_by(*names)) <= allowed


def test_deciding_needs_no_network_and_no_clock() -> None:
    loaded = loaded_by(*modules_of("scheduler"))
    assert not loaded & {"nats", "asyncio", "socket", "structlog", "random"}


def test_an_idle_node_loads_nothing_that_it_never_uses() -> None:
    """Each of these is memory of every node, whether or not it is ever needed there."""
    loaded = loaded_by("stoker.agent.daemon")
    assert not loaded & {"nats", "argparse", "difflib", "email", "stoker.mesh.client.client"}
    assert "difflib" not in loaded_by("stoker.agent.supervise.supervisor")


def test_every_module_can_be_imported_first() -> None:
    """No module works only because another of stoker was imported before it: no cycle is hidden.

    Each is imported in a process of its own, which has other projects' modules from its parent.
    """
    names = [name for folder in ("scheduler", "probes") for name in modules_of(folder)]
    done = subprocess.run(
        [sys.executable, "-c", FIRST, *names],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.stdout.split(), done.returncode) == (names, 0), done.stderr
