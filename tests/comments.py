# SPDX-License-Identifier: Apache-2.0
"""The comments of a source file: what Python and C keep for people, without its marks.

A block of comments is one text. A licence line says nothing about the file, so a block that begins
with one is the text behind it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.statements import statements

C_COMMENT = re.compile(r"/\*(.*?)\*/|(?<![:\"'])(//[^\n]*(?:\n[ \t]*//[^\n]*)*)", re.DOTALL)
C_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
LICENCE = re.compile(r"SPDX-License-Identifier:[^\n]*\n?")
STRING_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?"""'
    r"|'''(?:\\.|[^\\])*?'''"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'"
    r"|(#[^\n]*)",
    re.DOTALL,
)
"""A string of Python, or a comment as the only group. Tokens would say the same and take longer."""
MARKS = re.compile(r"^[ \t]*(?://+|\*)?[</ \t]*", re.MULTILINE)


def python_comments(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every block of comments and every string that stands as a statement."""
    for node in statements(ast.parse(text)):
        value = getattr(node, "value", None) if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield node.lineno, value.value.strip()
    for line, block in hash_blocks(text):
        yield line, LICENCE.sub("", "\n".join(block), count=1).strip()


def hash_blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """(line, lines) of every run of comments; one behind code is a run of its own."""
    first, last = 0, -1
    block: list[str] = []
    line, at = 1, 0
    for found in STRING_OR_COMMENT.finditer(text):
        line, at = line + text.count("\n", at, found.start()), found.start()
        if not found.group(1):
            continue
        alone = not text[text.rfind("\n", 0, at) + 1 : at].strip()
        if block and not (alone and line == last + 1):
            yield first, block
            block = []
        first = first if block else line
        block.append(found.group(1).lstrip("# "))
        last = line if alone else -1
    if block:
        yield first, block


def c_comments(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every comment; strings are blanked first, since they may hold slashes."""
    blank = C_STRING.sub(lambda found: '"' + " " * (len(found.group()) - 2) + '"', text)
    for found in C_COMMENT.finditer(blank):
        words = MARKS.sub("", found.group(1) or found.group(2) or "").strip("* \t\n")
        words = LICENCE.sub("", words, count=1).lstrip("* \t\n")
        words = re.sub(r"^@file\s*", "", words)
        yield blank.count("\n", 0, found.start()) + 1, words
