# SPDX-License-Identifier: Apache-2.0
"""Themes: every tone can be read, and no colour is used where none is wanted."""

from __future__ import annotations

import pytest

from stoker.tui.top.lines import TONES
from stoker.tui.top.theme import CONTRAST_LEAST, THEMES, chosen, contrast


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=0.001)


@pytest.mark.parametrize("name", THEMES)
def test_every_tone_can_be_read(name: str) -> None:
    assert set(THEMES[name]) == set(TONES)
    for tone, ink in THEMES[name].items():
        assert bool(ink.colour) == bool(ink.ground) == (name != "mono")
        if ink.colour:
            assert contrast(ink.colour, ink.ground) >= CONTRAST_LEAST, tone


def test_high_contrast_is_higher() -> None:
    for ink in THEMES["high-contrast"].values():
        assert contrast(ink.colour, ink.ground) >= 7


def test_no_color_and_dumb_terminals_get_no_colour() -> None:
    assert chosen("dark", {"NO_COLOR": "1"}) == "mono"
    assert chosen("light", {"TERM": "dumb"}) == "mono"
    assert chosen("light", {"NO_COLOR": "", "TERM": "xterm"}) == "light"


def test_the_cursor_and_a_fault_differ_without_colour() -> None:
    mono = THEMES["mono"]
    assert mono["cursor"].reverse and mono["bad"].bold
