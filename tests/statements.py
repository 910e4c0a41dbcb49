# SPDX-License-Identifier: Apache-2.0
"""The statements of Python source, for tests that read all of it.

Owns its cost: expressions, which are nine tenths of a tree, are not looked into.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the tree and each statement, handler and case in it, in the order of `ast.walk`."""
    level = [tree]
    while level:
        yield from level
        level = [inner for node in level for block in _BLOCKS for inner in _parts(node, block)]


def _parts(node: ast.AST, block: str) -> list[ast.AST]:
    """Return the statements of a block; the body of a lambda or a conditional is none."""
    found = getattr(node, block, None)
    return found if isinstance(found, list) else []
