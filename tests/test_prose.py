# SPDX-License-Identifier: Apache-2.0
"""Comments are sentences that stand alone: fragments without a head are found and refused.

A fragment is told by its first word: "Of ..." or "What ..." says nothing without the line above.
The rule is about comments, docstrings and the texts under constants, in Python and in C.
Run this file to print what is left: `python tests/test_prose.py`.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUFFIXES = {".py", ".pyi", ".c", ".h", ".cpp"}
ELSEWHERE = ("probes/bpf/vmlinux/",)
"""Files that are generated from others' text."""
HEADLESS = re.compile(
    r"(?:Of|What|The same|Whose|Which|Who|Whether|How|Likewise|Such|Also of|And)\b(?![^.]*\?)"
)
C_COMMENT = re.compile(r"/\*(.*?)\*/|(?<![:\"'])//([^\n]*(?:\n[ \t]*//[^\n]*)*)", re.DOTALL)
C_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
REASON = re.compile(r"Relied on by\b")


def files() -> list[Path]:
    argv = ["git", "-C", str(ROOT), "ls-files", "-z"]
    names = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split("\0")
    paths = [Path(name) for name in names if Path(name).suffix in SUFFIXES]
    return [
        path
        for path in paths
        if not (ROOT / path).is_symlink()
        and (ROOT / path).exists()
        and not str(path).startswith(ELSEWHERE)
    ]


def python_comments(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every block of comments and every string that stands as a statement."""
    for node in ast.walk(ast.parse(text)):
        value = getattr(node, "value", None) if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield node.lineno, value.value.strip()
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            follows = token.start[0] == last + 1 and token.line.lstrip().startswith("#")
            if not follows:
                yield token.start[0], token.string.lstrip("# ")
            last = token.start[0] if token.line.lstrip().startswith("#") else -1


def c_comments(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every comment; strings are blanked first, since they may hold slashes."""
    blank = C_STRING.sub(lambda found: '"' + " " * (len(found.group()) - 2) + '"', text)
    for found in C_COMMENT.finditer(blank):
        words = (found.group(1) or found.group(2) or "").lstrip("*/< \t\n")
        words = re.sub(r"^@file\s*\*?\s*", "", words)
        yield blank.count("\n", 0, found.start()) + 1, words


def comments(path: Path) -> Iterator[tuple[int, str]]:
    text = (ROOT / path).read_text(encoding="utf-8")
    return python_comments(text) if path.suffix in {".py", ".pyi"} else c_comments(text)


def headless() -> list[str]:
    """Every comment that has no head, as "file:line: its beginning"."""
    return [
        f"{path}:{line}: {text.splitlines()[0][:70]}"
        for path in files()
        for line, text in comments(path)
        if text and (HEADLESS.match(text) or REASON.search(text))
    ]


def test_no_comment_is_headless() -> None:
    assert headless() == []


if __name__ == "__main__":
    print("\n".join(headless()))
