# SPDX-License-Identifier: Apache-2.0
"""Keys of the live view: the grammar of k9s, confirmed changes, and none with --readonly."""

from __future__ import annotations

import msgspec
import pytest
from fakes import top_cluster
from fakes.top_cluster import GPU, browser, scene

from stoker.tui.top.browser import Browser, Effect, OpenShell, Quit, ReadNow, ViewChange
from stoker.tui.top.frame import frame, text_of
from stoker.tui.top.keys import BINDINGS, BY_KEY, DESTRUCTIVE

ANSWERS = top_cluster.answers()


def press(shown: Browser, *keys: str) -> list[Effect]:
    """Press keys by Textual's names; a text in quotes is typed."""
    effects: list[Effect] = []
    for key in keys:
        typed = list(key[1:-1]) if key.startswith("'") else [key]
        for each in typed:
            character = each if len(each) == 1 else None
            effects += shown.press(each, character, ANSWERS)
            frame(shown, scene(shown.visit.view.name)._replace(answers=ANSWERS))
    return effects


def at(shown: Browser) -> tuple[str, str]:
    return shown.visit.view.name, shown.visit.subject


def test_enter_leads_from_the_cluster_to_a_device_and_esc_back() -> None:
    shown = browser("cluster")
    assert press(shown, "enter", "down", "enter") == [ReadNow(), ReadNow()]
    assert at(shown) == ("device", f"n1:{GPU}1")
    press(shown, "escape")
    assert at(shown) == ("node", "n1")
    press(shown, "escape", "escape", "escape")
    assert at(shown) == ("cluster", "")


def test_an_array_is_one_row_that_opens_is_explained_and_is_cancelled_as_a_whole() -> None:
    rows = [top_cluster.array_row(), *top_cluster.jobs()]
    answers = msgspec.structs.replace(ANSWERS, jobs=rows)
    shown = browser("jobs")
    assert shown.press("ctrl+d", None, answers) == []
    assert shown.pending == ViewChange("cancel", "11-14")
    assert shown.press("y", "y", answers) == [ViewChange("cancel", "11-14")]
    shown.press("enter", None, answers)
    assert at(shown) == ("array", "11-14")
    shown.press("down", None, answers)
    shown.press("ctrl+d", None, answers)
    assert shown.pending == ViewChange("cancel", "12")
    shown.press("n", "n", answers)
    shown.press("enter", None, answers)
    assert at(shown) == ("job", "12")
    waits = browser("why")
    assert [job.job for job in waits.items(answers)] == [12, 10]
    waits.visits[-1] = msgspec.structs.replace(waits.visit, key="12")
    waits.press("enter", None, answers)
    assert at(waits) == ("explain", "13")
    typed = browser("jobs")
    for key in ("colon", *"array", "enter"):
        typed.press(key, key if len(key) == 1 else None, answers)
    assert at(typed) == ("array", "11-14")


def test_a_command_opens_a_view_by_its_beginning_and_its_subject() -> None:
    shown = browser("cluster")
    press(shown, "colon", "'top n2'", "enter")
    assert at(shown) == ("topology", "n2")
    press(shown, "colon", "'wh'", "tab", "enter")
    assert at(shown) == ("why", "")
    press(shown, "minus")
    assert at(shown) == ("topology", "n2")


def test_a_command_without_a_subject_takes_the_one_under_the_cursor() -> None:
    shown = browser("cluster")
    press(shown, "down", "colon", "'node'", "enter")
    assert at(shown) == ("node", "n2")
    shown = browser("events")
    press(shown, "colon", "'device'", "enter")
    assert at(shown) == ("device", f"n1:{GPU}0")


def test_an_unknown_or_ambiguous_view_is_said_and_changes_nothing() -> None:
    shown = browser("cluster")
    assert press(shown, "colon", "'jbos'", "enter") == []
    assert "no view is called 'jbos': cluster, node, devices" in shown.said
    press(shown, "colon", "'dev'", "enter")
    assert "no view is called 'dev'" in shown.said
    assert at(shown) == ("cluster", "")


def test_colon_q_and_the_keys_of_the_help_quit() -> None:
    assert press(browser("jobs"), "colon", "'q'", "enter") == [Quit()]
    assert press(browser("jobs"), "q") == [Quit()]
    for mode in ("browse", "command", "filter", "help", "object", "confirm"):
        shown = browser("jobs")
        shown.mode = mode  # type: ignore[assignment]
        assert press(shown, "ctrl+c") == [Quit()]


def test_a_filter_keeps_what_matches_and_esc_clears_it() -> None:
    shown = browser("jobs")
    press(shown, "slash", "'BOB'", "enter")
    assert [job.job for job in shown.items(ANSWERS)] == [10, 8]
    press(shown, "escape")
    assert len(shown.items(ANSWERS)) == 5
    press(shown, "slash", "'!running|pend'", "enter")
    assert [job.job for job in shown.items(ANSWERS)] == [8, 6]


def test_a_broken_filter_is_said_and_the_rows_stay() -> None:
    shown = browser("jobs")
    press(shown, "slash", "'['", "enter")
    assert shown.said.startswith("/[ is no pattern: ")
    assert len(shown.items(ANSWERS)) == 5


def test_nothing_matches_reads_so() -> None:
    shown = browser("jobs")
    press(shown, "slash", "'nobody'", "enter")
    lines = text_of(frame(shown, scene("jobs")))
    assert "no row matches /nobody" in lines[2]
    assert press(shown, "enter", "d", "ctrl+d") == []


def test_rows_are_sorted_by_a_column_and_absent_values_come_last() -> None:
    shown = browser("devices")
    titles = [column.title for column in shown.visit.view.columns if column.order is not None]
    press(shown, *["full_stop"] * (titles.index("BUSY") + 1))
    busy = [device.busy_ratio for device in shown.items(ANSWERS)]
    assert busy[:-1] == sorted(each for each in busy if each is not None) and busy[-1] is None
    press(shown, "exclamation_mark")
    assert next(device.busy_ratio for device in shown.items(ANSWERS)) == 1.0


def test_the_cursor_stays_on_its_row_when_rows_come_before_it() -> None:
    shown = browser("jobs")
    press(shown, "down")
    assert shown.under_cursor(ANSWERS).job == 9
    fewer = top_cluster.answers()
    fewer = scene("jobs", jobs=fewer.jobs[1:]).answers  # type: ignore[index]
    assert shown.under_cursor(fewer).job == 9


@pytest.mark.parametrize(
    ("view", "keys", "change"),
    [
        ("jobs", ("down", "ctrl+d"), ViewChange("cancel", "9")),
        ("node", ("c",), ViewChange("cordon", f"n1:{GPU}0")),
        ("devices", ("u",), ViewChange("uncordon", f"n1:{GPU}0")),
        ("cluster", ("x",), ViewChange("drain", "n1")),
        ("cluster", ("u",), ViewChange("uncordon", "n1")),
        ("alerts", ("a",), ViewChange("acknowledge", "n1:a12")),
    ],
)
def test_a_change_needs_y_and_any_other_key_forgets_it(
    view: str, keys: tuple[str, ...], change: ViewChange
) -> None:
    shown = browser(view)
    assert press(shown, *keys) == []
    assert shown.mode == "confirm"
    question = text_of(frame(shown, scene(view)))[-1]
    assert change.subject in question and "y: yes" in question
    assert press(shown, "n") == [] and shown.said == "nothing was changed"
    assert press(shown, *keys[-1:], "y") == [change]
    assert press(shown, "y") == [], "it is not carried out twice"


def test_readonly_refuses_every_key_that_changes_something() -> None:
    for binding in BINDINGS:
        if binding.where != "change":
            continue
        for view in binding.views or ("jobs",):
            shown = browser(view, readonly=True)
            for key in binding.keys:
                assert press(shown, key, "y") == []
                assert shown.mode != "confirm"
    help_page = "\n".join(text_of(frame_of_help(readonly=True)))
    assert "ctrl-d" not in help_page


def frame_of_help(*, readonly: bool = False) -> list:  # type: ignore[type-arg]
    shown = browser("jobs", readonly=readonly)
    press(shown, "question_mark")
    return frame(shown, scene("jobs", 100, 60))


def test_the_help_names_every_key_of_the_view_and_every_view() -> None:
    page = "\n".join(text_of(frame_of_help()))
    for binding in BINDINGS:
        if binding.where != "replay" and (not binding.views or "jobs" in binding.views):
            assert f"{binding.shown} " in page and binding.says[:20] in page
    for view in browser("jobs").views:
        assert f":{view}" in page


def test_no_key_does_two_things_and_every_change_asks() -> None:
    keys = [key for binding in BINDINGS for key in binding.keys]
    assert len(keys) == len(set(keys)) == len(BY_KEY)
    changes = {binding.action for binding in BINDINGS if binding.where == "change"}
    assert changes - {"shell"} == set(DESTRUCTIVE)


def test_letters_of_k9s_lead_from_a_job_to_its_page_output_reason_object_and_shell() -> None:
    for key, view in (("d", "job"), ("l", "logs"), ("w", "explain"), ("enter", "job")):
        shown = browser("jobs")
        press(shown, key)
        assert at(shown) == (view, "10")
    shown = browser("jobs")
    press(shown, "y")
    assert '"job": 10,' in "\n".join(text_of(frame(shown, scene("jobs"))))
    press(shown, "y")
    assert press(shown, "s") == [OpenShell("10")]


def test_output_follows_its_end_until_a_key_scrolls_up() -> None:
    lines = tuple(f"line {at}" for at in range(100))
    logs = top_cluster.Logs(lines)
    moment = scene("logs", logs=logs)
    shown = browser("logs")
    press(shown, "end")
    assert "line 99" in text_of(frame(shown, moment))[-2]
    longer = scene("logs", logs=top_cluster.Logs((*lines, "line 100")))
    assert "line 100" in text_of(frame(shown, longer))[-2]
    shown.press("pageup", None, longer.answers)
    assert "line 100" not in "\n".join(text_of(frame(shown, longer)))
    frame(shown, longer)
    shown.press("end", None, longer.answers)
    assert "line 100" in text_of(frame(shown, longer))[-2]


def test_pause_stops_reading_and_says_so() -> None:
    shown = browser("jobs")
    assert press(shown, "space") == [] and shown.paused
    assert "PAUSED" in text_of(frame(shown, scene("jobs")))[0]
    assert press(shown, "space") == [ReadNow()]


def test_typing_is_bounded() -> None:
    shown = browser("jobs")
    press(shown, "slash")
    for _ in range(1000):
        shown.press("a", "a", ANSWERS)
    assert len(shown.typed) == 200
    press(shown, "ctrl+u", "'x'", "backspace", "escape")
    assert (shown.mode, shown.visit.pattern) == ("browse", "")
