# SPDX-License-Identifier: Apache-2.0
"""Lines fit a terminal of 80 columns; into a pipe they are whole."""

from __future__ import annotations

import pytest

from stoker.agent.commands import terminal

LONG = "a1b2c3d4-e5f6-4711-8899-aabbccddeeff-0123456789"


@pytest.fixture
def eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "columns", lambda: 80)


def test_a_pipe_gets_lines_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert terminal.columns() is None
    assert terminal.wrapped("word " * 40) == "word " * 40
    (heading, row) = terminal.table([("ID", "WATTS"), (LONG, "1 W")], cut=0)
    assert row == f"{LONG}  1 W" and heading.startswith("ID   ")


@pytest.mark.usefixtures("eighty")
def test_a_long_line_is_broken_and_the_rest_indented() -> None:
    lines = terminal.wrapped("word " * 40, 4).splitlines()
    assert len(lines) > 2 and max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()) == ("word " * 40).strip()
    assert not lines[0].startswith(" ") and all(line.startswith("    w") for line in lines[1:])
    hint = terminal.wrapped("      -> " + "word " * 40, 4).splitlines()
    assert hint[0].startswith("      -> ") and hint[1].startswith(" " * 10 + "w")
    assert max(map(len, hint)) <= 80
    assert terminal.wrapped("short") == "short"


@pytest.mark.usefixtures("eighty")
def test_a_table_that_is_too_wide_cuts_one_column_and_marks_it() -> None:
    rows = [("ID", "WATTS", "NOTE"), (LONG, "1 W", "n" * 40), ("b", "20 W", "x")]
    lines = terminal.table(rows, cut=0, right=[1])
    assert max(map(len, lines)) == 80 and "…" in lines[1]
    assert lines[1].endswith("    1 W  " + "n" * 40) and lines[2].split() == ["b", "20", "W", "x"]
    assert "…" not in "".join(terminal.table([("ID", "WATTS"), (LONG, "1 W")], cut=0))
