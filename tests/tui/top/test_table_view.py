# SPDX-License-Identifier: Apache-2.0
"""The live table: only visible lines are made, the cursor follows its row, text is made safe."""

from textual.app import App, ComposeResult

from stoker.tui.top.table_view import TableView, ViewColumn, ViewRow

COLUMNS = (ViewColumn("id", 6, right=True), ViewColumn("name", 10))


class Harness(App[None]):
    """One table on a small screen."""

    def compose(self) -> ComposeResult:
        yield TableView(COLUMNS, empty="nothing yet")


def rows(count: int, start: int = 0) -> list[ViewRow]:
    return [ViewRow(str(i), (str(i), f"row {i}")) for i in range(start, start + count)]


def lines(table: TableView) -> list[str]:
    return [table.render_line(y).text.rstrip() for y in range(table.size.height)]


async def test_an_empty_table_says_so_under_its_heading() -> None:
    async with Harness().run_test(size=(40, 8)) as pilot:
        table = pilot.app.query_one(TableView)
        assert lines(table)[:2] == ["    id  name", "nothing yet"]


async def test_many_rows_make_only_the_lines_on_the_screen() -> None:
    async with Harness().run_test(size=(40, 8)) as pilot:
        table = pilot.app.query_one(TableView)
        made: list[int] = []
        original = table._row_line
        table._row_line = lambda index: made.append(index) or original(index)  # type: ignore[method-assign, func-returns-value]
        table.show(rows(100_000))
        await pilot.pause()
        assert made
        assert max(made) < 100


async def test_the_cursor_stays_on_its_row_when_rows_come_before_it() -> None:
    async with Harness().run_test(size=(40, 8)) as pilot:
        table = pilot.app.query_one(TableView)
        table.show(rows(5, start=10))
        table.focus()
        await pilot.press("down", "down")
        assert table.selected is not None
        assert table.selected.key == "12"
        table.show(rows(8, start=7))
        assert table.selected is not None
        assert table.selected.key == "12"


async def test_end_and_home_scroll_to_the_last_and_first_row() -> None:
    async with Harness().run_test(size=(40, 8)) as pilot:
        table = pilot.app.query_one(TableView)
        table.show(rows(50))
        table.focus()
        await pilot.press("end")
        await pilot.pause()
        assert any("row 49" in line for line in lines(table))
        await pilot.press("home")
        await pilot.pause()
        assert any("row 0" in line for line in lines(table))
        assert lines(table)[0] == "    id  name"


async def test_control_characters_and_long_names_cannot_break_the_line() -> None:
    async with Harness().run_test(size=(40, 8)) as pilot:
        table = pilot.app.query_one(TableView)
        table.show([ViewRow("1", ("1", "\x1b[31mred\nnext line of a name"))])
        assert lines(table)[1] == "     1  ?[31mred?…"


async def test_a_shorter_list_pulls_the_cursor_back() -> None:
    async with Harness().run_test(size=(40, 8)) as pilot:
        table = pilot.app.query_one(TableView)
        table.show(rows(20))
        table.focus()
        await pilot.press("end")
        table.show(rows(3))
        assert table.selected is not None
        assert table.selected.key == "2"
