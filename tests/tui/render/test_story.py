# SPDX-License-Identifier: Apache-2.0
"""The screen of a story: relative times, labels that stand once, no line wider than a screen."""

from __future__ import annotations

from stoker.tui.render import story


def test_a_story_is_told_from_its_first_moment() -> None:
    moments = [(5_000_000_000, "it begins"), (6_250_000_000, "it \x1b ends")]
    text = story.render("title", ["first", "second"], moments, [("seen", "a"), ("seen", "b")])
    assert text.splitlines() == [
        "title",
        "",
        "hosts      first",
        "           second",
        "",
        "    0.00 s it begins",
        "    1.25 s it ? ends",
        "",
        "seen       a",
        "           b",
    ]


def test_long_lines_are_wrapped_below_their_text_and_nothing_is_no_error() -> None:
    text = story.render("t", [], [], [("limit", "word " * 60)])
    lines = text.splitlines()
    assert max(map(len, lines)) <= story.COLUMNS
    assert lines[-1].startswith(" " * story.LABEL + "word")
