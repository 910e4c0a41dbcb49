# SPDX-License-Identifier: Apache-2.0
"""Output on a terminal: nothing that it would act on gets through, however it is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.tui.calls.terminal_output import TerminalOutput


def through(*pieces: bytes, encoding: str = "utf-8") -> bytes:
    got: list[bytes] = []
    output = TerminalOutput(got.append, encoding)
    for piece in pieces:
        output.write(piece)
    output.end()
    return b"".join(got)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x1b]52;c;QQ==\x07\x1b[2Jhi\n", b"?]52;c;QQ==??[2Jhi\n"),
        (b"\xc2\x9b31mred", b"?31mred"),
        (b"\x9b31m", "\ufffd31m".encode()),
        ("\u202eabc\u200b".encode(), b"?abc?"),
        (b" 10 %\r 20 %\r\tdone\x08\x7f", b" 10 %\r 20 %\r\tdone??"),
        ("a\u00a0\u3000é日".encode(), "a\u00a0\u3000é日".encode()),
    ],
)
def test_what_would_control_the_terminal_is_shown_as_a_mark(data: bytes, shown: bytes) -> None:
    assert through(data) == shown


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_a_cut_changes_nothing_and_no_control_character_gets_through(
    data: bytes, cuts: list[int]
) -> None:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(places)]
    shown = through(*pieces)
    assert shown == through(data)
    assert not [c for c in shown.decode() if ord(c) < 32 and c not in "\n\t\r"]
    assert not [c for c in shown.decode() if 127 <= ord(c) < 160]


def test_a_terminal_of_another_encoding_gets_what_it_has() -> None:
    assert through("é\n".encode(), encoding="ascii") == b"?\n"
