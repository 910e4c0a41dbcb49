# SPDX-License-Identifier: Apache-2.0
"""One frame: exactly the lines of the terminal, from where the person is and what is known.

Pure, and the one source of what is shown: the screen paints these lines, the snapshots store them,
and the bench compares a parsed terminal with them cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from stoker.mesh.wire.schema import JobView
from stoker.tui.render import units
from stoker.tui.top import answers as parts
from stoker.tui.top import keys, table
from stoker.tui.top.answers import Answers, ServerState
from stoker.tui.top.browser import Browser
from stoker.tui.top.clock import Replayed
from stoker.tui.top.lines import Line, Look, Piece, Tone, blank, ends, fitted, line, plain
from stoker.tui.top.table import GAP
from stoker.tui.top.visit import Visit

BACK_SHOWN_NS = 10_000_000_000
"""The time for which the head says that a lost server has returned."""
HINTS_LEAST = 60
"""The width in which the keys of every view have room; a narrower line is cut."""
TABLE_LEAST = 4
"""The fewest lines that the lines above a table leave for it."""


class Scene(NamedTuple):
    """Everything beside the browser that a frame shows."""

    answers: Answers
    service: ServerState
    look: Look
    replayed: Replayed | None = None
    """The clock of a replay; None for what is live."""


def frame(browser: Browser, scene: Scene) -> list[Line]:
    """Return the lines of the terminal, each exactly as wide as it."""
    look = scene.look
    lines = [_top(browser, scene)]
    notice = _notice(scene)
    if look.rows >= 8 and notice is not None:
        lines.append(notice)
    bottom = [_bottom(browser, scene)] if look.rows >= 3 else []
    room = max(0, look.rows - len(lines) - len(bottom))
    body = _body(browser, scene, room)
    return [*_fit(lines, look), *body[:room], *_fit(bottom, look)]


def _fit(lines: Sequence[Line], look: Look) -> list[Line]:
    return [fitted(each, look.columns, look.marks) for each in lines]


# --- the head and the bottom --------------------------------------------------------------------


def _top(browser: Browser, scene: Scene) -> Line:
    look = scene.look
    visit = browser.visit
    left = [Piece(f" {visit.view.title} ", "head")]
    if visit.subject:
        left.append(Piece(f" {visit.subject}"))
    if visit.pattern:
        left.append(Piece(f"  /{visit.pattern}", "key"))
    return ends(left, _state(browser, scene), look.columns, look.marks)


def _state(browser: Browser, scene: Scene) -> list[Piece]:
    """Return the right end of the first line: SIM, read-only, paused, and how old the data is."""
    right: list[Piece] = []
    replayed, wide = scene.replayed, scene.look.columns >= 60
    if (alarm := alert_mark(scene.answers, wide=wide)) is not None:
        right += [Piece(" "), alarm]
    if is_sim(scene.answers):
        right.append(Piece(" SIM", "warn"))
    if replayed is not None and replayed.redacted and wide:
        right.append(Piece(" redacted", "dim"))
    if browser.readonly and wide:
        right.append(Piece(" read-only", "dim"))
    if browser.paused:
        right.append(Piece(" PAUSED", "warn"))
    return [*right, Piece(" "), age(scene)]


def is_sim(answers: Answers) -> bool:
    """Return True if anything that is known is about a simulated device."""
    if answers.devices is not None and parts.whole(answers.devices).sim:
        return True
    if answers.alerts is not None and any(alert.sim for alert in answers.alerts.alerts):
        return True
    return any(_has_sim(jobs) for jobs in (answers.jobs, answers.array) if jobs is not None)


@parts.newest
def _has_sim(jobs: Sequence[JobView]) -> bool:
    placed = (job.decision for job in jobs if job.decision is not None)
    return any(share.sim for decision in placed for share in decision.devices)


def alert_mark(answers: Answers, *, wide: bool) -> Piece | None:
    """Return the mark of alerts that fire, which every view has; None if there are none.

    Those that nobody has seen come first, because somebody has to.
    """
    found = answers.alert_counts
    if found is None or not found.firing:
        return None
    if not found.unseen:
        return Piece(f"{_alerts(found.firing)} seen" if wide else f"a{found.firing}", "dim")
    return Piece(f"! {_alerts(found.unseen)}" if wide else f"!{found.unseen}", "bad")


def _alerts(count: int) -> str:
    return f"{count} alert{'s' if count > 1 else ''}"


def age(scene: Scene) -> Piece:
    """Return how old the shown data is; more than two seconds read as STALE."""
    at_ns = scene.answers.at_ns
    if scene.replayed is not None:
        return _replay_clock(scene.replayed)
    if not at_ns:
        return Piece("connecting" if not scene.service.lost_ns else "NO ANSWER", "warn")
    old = max(0, scene.look.now_ns - at_ns)
    if old > parts.STALE_NS:
        return Piece(f"STALE {units.duration(old // 10**9 * 10**9)}", "bad")
    return Piece("live", "good")


def _replay_clock(replayed: Replayed) -> Piece:
    """Return the word REPLAY and the time that is shown, which is never taken for the present."""
    at = datetime.fromtimestamp(replayed.t_ns // 10**9)
    speed = f" x{replayed.speed:g}" if replayed.playing else " stopped"
    return Piece(f"REPLAY {at:%Y-%m-%d %H:%M:%S}{speed}", "warn")


def _notice(scene: Scene) -> Line | None:
    service, now_ns = scene.service, scene.look.now_ns
    if scene.replayed is not None and scene.replayed.gap:
        gone = units.duration(scene.replayed.gap_ns // 10**9 * 10**9)
        return line(f"! a gap since {gone}: {scene.replayed.gap}", "bad")
    if service.lost_ns:
        gone = units.duration(max(0, now_ns - service.lost_ns) // 10**9 * 10**9)
        words = f"! no answer for {gone}: {service.why}; this is what was read before"
        return line(words, "bad")
    if service.back_ns and now_ns - service.back_ns < BACK_SHOWN_NS:
        gone = units.duration(service.gone_ns // 10**9 * 10**9)
        return line(f"the server answers again; it was away for {gone}", "good")
    return None


def _bottom(browser: Browser, scene: Scene) -> Line:
    prompts = {"command": ":", "filter": "/"}
    if browser.mode in prompts:
        return (Piece(f"{prompts[browser.mode]}{browser.typed}", "key"), Piece(" ", "cursor"),
                *_completions(browser))  # fmt: skip
    if browser.mode == "confirm" and browser.pending is not None:
        action, subject = browser.pending
        what = {"cancel": "job", "drain": "node", "cordon": "device", "acknowledge": "alert"}.get(
            action, ""
        )
        what = "jobs" if action == "cancel" and "-" in subject else what
        asked = " ".join(filter(None, (action, what, subject)))
        return line(f"{asked}?  y: yes, any other key: no", "bad")
    if browser.said:
        return line(browser.said, "warn")
    return _hints(browser, scene.look)


def _completions(browser: Browser) -> list[Piece]:
    if browser.mode != "command" or " " in browser.typed:
        return []
    fitting = [name for name in browser.views if name.startswith(browser.typed)]
    return [Piece("  " + " ".join(fitting), "dim")]


def _hints(browser: Browser, look: Look) -> Line:
    """Return the keys with a word each: those of every view, then the shown view's that fit."""
    spans: list[Piece] = []
    left = look.columns
    for shown, word in keys.hints(
        browser.visit.view.name, readonly=browser.readonly, replay=browser.replay
    ):
        left -= len(shown) + 1 + len(word) + (len(GAP) if spans else 0)
        if left < 0 and look.columns >= HINTS_LEAST:
            break
        spans += [Piece(GAP)] if spans else []
        spans += [Piece(f"{shown} ", "key"), Piece(word, "dim")]
    return tuple(spans)


# --- the body -----------------------------------------------------------------------------------


def _body(browser: Browser, scene: Scene, room: int) -> list[Line]:
    if browser.mode == "help":
        return _page(browser, help_lines(browser), room, scene.look)
    if browser.mode == "object":
        return _page(browser, object_lines(browser, scene.answers), room, scene.look)
    if browser.visit.view.lines is not None:
        return _scrolled(browser, scene, room)
    return _table(browser, scene, room)


def _page(browser: Browser, lines: list[Line], room: int, look: Look) -> list[Line]:
    """Return the part of a page that a person has scrolled to."""
    browser.rows = max(room, 1)
    above = min(int(browser.typed or 0), max(0, len(lines) - room))
    browser.typed = str(above)
    return _filled(_fit(lines[above : above + room], look), room, look)


def _scrolled(browser: Browser, scene: Scene, room: int) -> list[Line]:
    """Return the part of a view of whole lines that its window is on."""
    visit = browser.visit
    assert visit.view.lines is not None
    lines = visit.view.lines(scene.answers, visit.subject, scene.look)
    count = len(lines)
    visit = browser.settle((), count, room)
    offset = visit.offset
    return _filled(_fit(lines[offset : offset + room], scene.look), room, scene.look)


def _table(browser: Browser, scene: Scene, room: int) -> list[Line]:
    look, view = scene.look, browser.visit.view
    head = view.head(scene.answers, browser.visit.subject, look)
    head = head[: max(0, room - TABLE_LEAST)]
    items = browser.items(scene.answers)
    foot_rows = view.foot_rows if room - len(head) >= view.foot_rows + 2 * TABLE_LEAST else 0
    rows = room - len(head) - 1 - foot_rows
    visit = browser.settle(items, len(items), rows)
    fitted_columns = table.fit_columns(view.columns, look.columns)
    lines = [*_fit(head, look), table.heading(fitted_columns, look, visit.sort, down=visit.down)]
    lines += _filled(_rows(fitted_columns, items, visit, rows, scene), rows, look)
    if foot_rows and view.foot is not None:
        item = items[visit.cursor] if items else None
        rule = line(look.marks.rule * look.columns, "dim")
        foot = [rule, *view.foot(scene.answers, item, look)][:foot_rows]
        lines += _filled(_fit(foot, look), foot_rows, look)
    return lines


def _rows(
    columns: table.Fitted[Any], items: Sequence[Any], visit: Visit, rows: int, scene: Scene
) -> list[Line]:
    view = visit.view
    if not items:
        none = f"no row matches /{visit.pattern}" if visit.pattern else view.empty
        read = bool(scene.answers.at_ns)
        return _fit([line(none if read else "reading ...", "dim")], scene.look)
    lines: list[Line] = []
    for at in range(visit.offset, min(visit.offset + rows, len(items))):
        item = items[at]
        tone: Tone = "cursor" if at == visit.cursor else view.tone(item, scene.answers, scene.look)
        lines.append(table.row(columns, item, scene.look, tone))
    return lines


def _filled(lines: Sequence[Line], room: int, look: Look) -> list[Line]:
    """Return exactly `room` lines, the last ones blank."""
    return [*lines[:room], *[blank(look.columns)] * max(0, room - len(lines))]


def help_lines(browser: Browser) -> list[Line]:
    """Return the keys of the shown view and the views there are, from the bindings."""
    view = browser.visit.view
    lines: list[Line] = [line(f"{view.title}: {view.says}", "title"), line("")]
    for shown, says in keys.help_rows(view.name, readonly=browser.readonly,
                                    replay=browser.replay):  # fmt: skip
        lines.append((Piece(f"  {shown:<12}", "key"), Piece(says)))
    lines += [line(""), line("views", "title")]
    for each in browser.views.values():
        name = f"{each.name} {each.subject.upper()}".strip()
        lines.append((Piece(f"  :{name:<18}", "key"), Piece(each.says)))
    return lines


def object_lines(browser: Browser, answers: Answers) -> list[Line]:
    """Return the row under the cursor as JSON, as the schema has it."""
    item = browser.under_cursor(answers)
    shown = browser.visit.view.object(item) if item is not None else answers.job
    if shown is None:
        return [line("there is no row here", "dim")]
    data = msgspec.json.format(msgspec.json.encode(shown), indent=2)
    return [line(each) for each in data.decode().split("\n")]


def text_of(lines: Sequence[Line]) -> list[str]:
    """Return the text of lines as they stand, without what fills them."""
    return [plain(each) for each in lines]
