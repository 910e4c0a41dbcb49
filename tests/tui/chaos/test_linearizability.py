# SPDX-License-Identifier: Apache-2.0
"""The judge of histories rejects bad ones, and agrees with whoever tries all orders."""

from __future__ import annotations

import ast
import itertools
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoker.tui.chaos import linearizability
from stoker.tui.chaos.linearizability import Operation

INF = math.inf


def history(*words: str) -> list[Operation]:
    """Operations written as `w VALUE START END` or `r VALUE START END`; `-` is no end or value."""
    found = []
    for each in words:
        kind, value, start, end = each.split()
        kind = {"w": "write", "r": "read"}[kind]
        value = "" if value == "-" else value
        found.append(Operation("x", kind, value, int(start), INF if end == "-" else int(end)))
    return found


GOOD = [
    [],
    ["r - 0 1"],
    ["w a 0 2", "r - 1 3", "r a 3 4"],
    ["w a 0 9", "w b 1 8", "r a 2 3", "r b 4 5"],
    ["w a 0 9", "w b 1 8", "r b 2 3", "r a 4 5"],
    ["w a 0 -", "r - 1 2", "r a 3 4"],
    ["w a 0 -", "w b 1 2", "r b 3 4", "r a 5 6"],
    ["w a 0 -", "w b 1 2", "r b 3 4"],
    ["w a 0 1", "r a 2 3", "w b 2 5", "r a 4 6", "r b 5 7"],
]
BAD = [
    ["w a 0 1", "r - 2 3"],
    ["r a 0 1", "w a 2 3"],
    ["w a 0 1", "w b 2 3", "r a 4 5"],
    ["r a 0 1"],
    ["w a 0 9", "r a 1 2", "r - 3 4"],
    ["w a 0 9", "w b 1 8", "r a 2 3", "r b 4 5", "r a 6 7"],
    ["w a 0 -", "w b 1 2", "r a 3 4", "r b 5 6", "r a 7 8"],
    ["w a 0 -", "r a 1 2", "w b 3 4", "r a 5 6"],
    ["w a 0 1", "w b 2 3", "r b 4 9", "r a 5 6"],
    ["w a 0 3", "w b 1 2", "r b 4 5", "r a 4 6", "r b 7 8"],
    ["w a 0 1", "w a 2 3"],
    ["w a 0 1", "w b 2 -", "r - 3 4"],
]


@pytest.mark.parametrize("words", GOOD)
def test_a_history_that_could_be_is_taken(words: list[str]) -> None:
    assert list(linearizability.violations(history(*words))) == []


@pytest.mark.parametrize("words", BAD)
def test_a_bad_history_is_rejected(words: list[str]) -> None:
    assert list(linearizability.violations(history(*words)))


def test_registers_are_judged_each_for_itself() -> None:
    a, b = history("w a 0 1", "w b 2 3")
    other = b._replace(register="y")
    read = Operation("x", "read", "a", 4, 5)
    assert list(linearizability.violations([a, other, read])) == []


def could_be(operations: list[Operation]) -> bool:
    """Return the same by trying each order, with each choice of unanswered writes that happen."""
    sure = [each for each in operations if each.end < INF]
    unsure = [each for each in operations if each.end == INF]
    for count in range(len(unsure) + 1):
        for happen in itertools.combinations(unsure, count):
            if any(_fits(order) for order in itertools.permutations([*sure, *happen])):
                return True
    return False


def _fits(order: tuple[Operation, ...]) -> bool:
    value = ""
    for place, operation in enumerate(order):
        if any(later.end < operation.start for later in order[place + 1 :]):
            return False
        if operation.kind == "write":
            value = operation.value
        elif operation.value != value:
            return False
    return True


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    """Up to three writes of different values and three reads, with times that never meet."""
    values = draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3))
    reads = draw(st.lists(st.sampled_from(["", *values]), max_size=3))
    times = iter(draw(st.permutations(range(2 * (len(values) + len(reads))))))
    found = []
    for kind, value in [("write", v) for v in values] + [("read", v) for v in reads]:
        start, end = sorted((next(times), next(times)))
        unanswered = kind == "write" and draw(st.booleans())
        found.append(Operation("x", kind, value, start, INF if unanswered else end))
    return found


@given(histories())
@example(history("w a 0 9", "w b 1 8", "r a 2 3", "r b 4 5", "r a 6 7"))
def test_it_agrees_with_whoever_tries_all_orders(operations: list[Operation]) -> None:
    assert (not list(linearizability.violations(operations))) == could_be(operations)


def test_it_runs_by_itself_and_imports_nothing_of_stoker(tmp_path: Path) -> None:
    source = Path(linearizability.__file__)
    imported = {
        name.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert imported <= set(sys.stdlib_module_names) | {"collections.abc"}
    for words, code in ((GOOD[6], 0), (BAD[6], 1)):
        lines = [json.dumps({**op._asdict(), "end": None if op.end == INF else op.end})
                 for op in history(*words)]  # fmt: skip
        (tmp_path / "history").write_text("\n".join(lines))
        done = subprocess.run([sys.executable, str(source), str(tmp_path / "history")],
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == code and bool(done.stdout.strip() == "linearizable") == (not code)
