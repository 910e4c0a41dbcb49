# SPDX-License-Identifier: Apache-2.0
"""Themes: the colours of each tone, and when a terminal gets none.

Owns the promise that text can be read: each tone of a coloured theme has a contrast of at least
CONTRAST_LEAST to its ground (WCAG 2.1, 1.4.3), and no theme tells anything by colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from stoker.tui.top.lines import Tone

CONTRAST_LEAST: Final = 4.5


class ToneInk(NamedTuple):
    """The drawing of one tone: colours as `#rrggbb`, or empty for the terminal's own."""

    colour: str = ""
    ground: str = ""
    bold: bool = False
    dim: bool = False
    reverse: bool = False
    underline: bool = False


Theme = Mapping[Tone, ToneInk]

_DARK, _BLACK, _PAPER = "#14181d", "#000000", "#fbfaf7"
THEMES: Final[dict[str, Theme]] = {
    "dark": {
        "": ToneInk("#d5d8dc", _DARK),
        "good": ToneInk("#7fd18b", _DARK),
        "warn": ToneInk("#e9c46a", _DARK),
        "bad": ToneInk("#ff8f84", _DARK, bold=True),
        "dim": ToneInk("#98a2ae", _DARK),
        "head": ToneInk("#9fc9ff", _DARK, bold=True),
        "title": ToneInk("#ffffff", _DARK, bold=True),
        "key": ToneInk("#9fc9ff", _DARK),
        "cursor": ToneInk("#ffffff", "#2b4a72", bold=True),
    },
    "light": {
        "": ToneInk("#22262b", _PAPER),
        "good": ToneInk("#1d6b2c", _PAPER),
        "warn": ToneInk("#7a4f00", _PAPER),
        "bad": ToneInk("#b3150d", _PAPER, bold=True),
        "dim": ToneInk("#596168", _PAPER),
        "head": ToneInk("#0b4a94", _PAPER, bold=True),
        "title": ToneInk("#000000", _PAPER, bold=True),
        "key": ToneInk("#0b4a94", _PAPER),
        "cursor": ToneInk("#ffffff", "#1f4f8f", bold=True),
    },
    "high-contrast": {
        "": ToneInk("#ffffff", _BLACK),
        "good": ToneInk("#5dff7a", _BLACK),
        "warn": ToneInk("#ffe14d", _BLACK),
        "bad": ToneInk("#ff9d9d", _BLACK, bold=True),
        "dim": ToneInk("#d0d0d0", _BLACK),
        "head": ToneInk("#7fe9ff", _BLACK, bold=True),
        "title": ToneInk("#ffffff", _BLACK, bold=True),
        "key": ToneInk("#7fe9ff", _BLACK),
        "cursor": ToneInk("#000000", "#ffe14d", bold=True),
    },
    "mono": {
        "": ToneInk(),
        "good": ToneInk(),
        "warn": ToneInk(bold=True),
        "bad": ToneInk(bold=True, underline=True),
        "dim": ToneInk(),
        "head": ToneInk(bold=True, underline=True),
        "title": ToneInk(bold=True),
        "key": ToneInk(bold=True),
        "cursor": ToneInk(reverse=True),
    },
}
"""All themes; `mono` uses the terminal's own colours, bold, underline and reverse."""


def chosen(name: str, environment: Mapping[str, str]) -> str:
    """Return the theme to use: none has colours under NO_COLOR (no-color.org) or TERM=dumb."""
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return "mono"
    return name or "dark"


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, 1 to 21 (WCAG 2.1)."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
