# SPDX-License-Identifier: Apache-2.0
"""The user's page names every key and every view as the program does."""

from __future__ import annotations

from pathlib import Path

from stoker.tui.top import keys
from stoker.tui.top.views.catalogue import VIEWS

PAGE = (Path(__file__).parents[3] / "docs/user/live-view.md").read_text()


def table(name: str) -> list[str]:
    """The lines of the table under a mark on the page."""
    below = PAGE.partition(f"<!-- {name}: ")[2].partition("-->\n")[2]
    return below.partition("\n\n")[0].strip().splitlines()


def test_the_page_has_every_key() -> None:
    assert table("keys") == keys.page_rows()


def test_the_page_has_every_view() -> None:
    rows = [f"| `{view.name} {view.subject.upper()}".rstrip() + f"` | {view.says} |"
            for view in VIEWS.values()]  # fmt: skip
    assert table("views")[2:] == rows


def test_the_screen_on_the_page_is_one_of_the_program() -> None:
    golden = (Path(__file__).parents[2] / "golden/top/cluster.80x24.txt").read_text()
    shown = PAGE.split("```\n")[3]
    assert shown.startswith(" Cluster ") and golden.startswith(shown)


def test_the_views_of_a_key_exist() -> None:
    for binding in keys.BINDINGS:
        assert set(binding.views) <= set(VIEWS)


def test_the_bottom_line_has_the_keys_of_the_view_that_may_be_used() -> None:
    words = [word for _, word in keys.hints("alerts", readonly=False)]
    assert words[-1] == "acknowledge" and words[0] == "help"
    assert "acknowledge" not in dict(keys.hints("alerts", readonly=True)).values()
    replayed = [word for _, word in keys.hints("jobs", readonly=False, replay=True)]
    assert "cancel" not in replayed and {"output", "later", "event"} <= set(replayed)
