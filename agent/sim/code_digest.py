# SPDX-License-Identifier: Apache-2.0
"""The digest of the code that a seed runs, so that records of several campaigns can be added.

Owns what counts as that code: every module that the simulated cluster imports, however far down,
and the core. Equal digests mean equal statements: comments, docstrings and blank lines are left
out, since 100,000 seeds take hours and a word in a comment changes none of them.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import stoker

ROOT = "stoker.agent.sim.world"
CORE = "stoker.native._core"
PACKAGE = Path(stoker.__file__).parent
SOURCES = ("*.c", "*.cpp", "*.h")
C_TOKENS = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
"""Strings and characters of C, which are kept, and comments."""


def code_digest() -> str:
    """Return the digest of the modules and of the core, in 16 hexadecimal digits."""
    whole = hashlib.sha256()
    for name, path in sorted((*modules_of(ROOT).items(), *_core_files())):
        whole.update(name.encode() + b"\0" + hashlib.sha256(statements(path)).digest())
    return whole.hexdigest()[:16]


def statements(path: Path) -> bytes:
    """Return what a file says to a compiler, and nothing of what it says to a person alone."""
    if path.suffix == ".py":
        return ast.dump(_Silent().visit(ast.parse(path.read_text()))).encode()
    if path.suffix in (".c", ".cpp", ".h"):
        text = C_TOKENS.sub(lambda found: " " if found[0][0] == "/" else found[0], path.read_text())
        return "\n".join(filter(None, (line.strip() for line in text.splitlines()))).encode()
    return path.read_bytes()


class _Silent(ast.NodeTransformer):
    """Takes the docstrings out of a module: statements that are a string and do nothing."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node


def modules_of(root: str) -> dict[str, Path]:
    """Return the files of a module and of all modules of this package that it imports, by name."""
    found: dict[str, Path] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        path = _file_of(name)
        if path is None or name in found:
            continue
        found[name] = path
        waiting += _imported(path.read_text())
    return found


def _file_of(name: str) -> Path | None:
    """Return the file of a module; None for a compiled one, and for a name inside a module."""
    place = PACKAGE.joinpath(*name.split(".")[1:])
    files = place.with_suffix(".py"), place / "__init__.py"
    return next((file for file in files if file.is_file()), None)


def _imported(text: str) -> Iterator[str]:
    """Yield what a module imports from this package: modules, their packages, and names in them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == stoker.__name__)


def _core_files() -> Iterator[tuple[str, Path]]:
    """Yield the sources of the core in a checkout, or else the compiled core."""
    folder = PACKAGE / "native" / "core"
    files = [file for kind in SOURCES for file in folder.rglob(kind)]
    if files:
        yield from ((file.relative_to(folder).as_posix(), file) for file in files)
    elif (spec := find_spec(CORE)) is not None and spec.origin is not None:
        yield CORE, Path(spec.origin)
