# SPDX-License-Identifier: Apache-2.0
"""The bar never writes to stdout, nor to a stderr that is no terminal."""

from __future__ import annotations

import pytest

from stoker.tui.render.progress import progress


def test_nothing_is_drawn_into_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("working", 2) as advance:
        advance(1)
        advance(1)
    assert capsys.readouterr() == ("", "")
