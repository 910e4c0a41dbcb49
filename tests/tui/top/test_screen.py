# SPDX-License-Identifier: Apache-2.0
"""The live view as a person uses it: it paints answers, survives errors, pauses, and quits."""

from fakes.views import answers, device, job, node

from stoker.native.errors import Unavailable
from stoker.tui.top.screen import Top
from stoker.tui.top.table_view import TableView
from stoker.tui.top.top_model import Frame, frame


class Script:
    """A cluster that gives one prepared answer per reading, and then the last one for ever."""

    def __init__(self, *steps: Frame | Unavailable) -> None:
        self.steps = list(steps)
        self.asked = 0

    async def read(self) -> Frame:
        step = self.steps[min(self.asked, len(self.steps) - 1)]
        self.asked += 1
        if isinstance(step, Unavailable):
            raise step
        return step


ONE = frame(answers(nodes=[node()], devices=[device()], jobs=[job(1, "running")]))
TWO = frame(answers(nodes=[node()], jobs=[job(2, "pending"), job(1, "succeeded")]))


def text(app: Top, name: str) -> str:
    table = app.query_one(f"#{name}", TableView)
    return "\n".join(table.render_line(y).text.rstrip() for y in range(table.size.height))


def headline(app: Top) -> str:
    return str(app.query_one("#headline").render())


async def test_it_reads_at_once_and_shows_every_table() -> None:
    app = Top(Script(ONE).read, period_s=3600)
    async with app.run_test(size=(140, 40)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "1 running   0 waiting" in headline(app)
        assert "pocl-0" in text(app, "devices")
        assert "train" in text(app, "jobs")
        assert "no traced job is running" in text(app, "kernels")


async def test_an_error_is_said_and_the_last_answer_stays() -> None:
    app = Top(Script(ONE, Unavailable("the broker is gone")).read, period_s=3600)
    async with app.run_test(size=(140, 40)) as pilot:
        await app.workers.wait_for_complete()
        app.refresh_now()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "the broker is gone" in headline(app)
        assert "train" in text(app, "jobs")


async def test_space_pauses_and_resumes_with_a_new_reading() -> None:
    script = Script(ONE, TWO)
    app = Top(script.read, period_s=3600)
    async with app.run_test(size=(140, 40)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.press("space")
        assert "paused" in headline(app)
        app._tick()
        assert script.asked == 1
        await pilot.press("space")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "succeeded" in text(app, "jobs")


async def test_the_digits_and_tab_move_between_tables() -> None:
    app = Top(Script(ONE).read, period_s=3600)
    async with app.run_test(size=(140, 40)) as pilot:
        await pilot.press("1")
        assert app.focused is app.query_one("#nodes")
        await pilot.press("tab")
        assert app.focused is app.query_one("#devices")


async def test_q_quits() -> None:
    app = Top(Script(ONE).read, period_s=3600)
    async with app.run_test(size=(140, 40)) as pilot:
        await pilot.press("q")
    assert app.return_code == 0
