# SPDX-License-Identifier: Apache-2.0
"""The keys of the live view: one table, from which the help, the hints and the user's page come.

Owns which keys change something: those are refused by `--readonly`, and each needs a confirmation.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Where = Literal["everywhere", "rows", "change", "replay"]


class Binding(NamedTuple):
    """Keys by Textual's names, the action, and what the help says of it."""

    keys: tuple[str, ...]
    action: str
    shown: str
    """The keys as a person reads them."""
    says: str
    where: Where = "everywhere"
    hint: str = ""
    """The word in the bottom line, where it has room; empty: only the help names it."""
    views: tuple[str, ...] = ()
    """The views in which it does something; empty: all of them."""


JOB_ROWS: Final = ("jobs", "array", "job", "why", "logs")
ALERT_ROWS: Final = ("alerts",)
DEVICE_ROWS: Final = ("devices", "node", "device", "traces")

BINDINGS: Final[tuple[Binding, ...]] = (
    Binding(("question_mark", "h"), "help", "?", "these keys", hint="help"),
    Binding(("colon",), "command", ":VIEW", "go to a view: `:jobs`, `:node n1`", hint="view"),
    Binding(("slash",), "filter", "/TEXT", "only rows that match a pattern; `/!` those that do not",
            hint="filter"),
    Binding(("enter",), "into", "enter", "into the row under the cursor", "rows", "into"),
    Binding(("escape",), "back", "esc", "clear the filter, then back to the view before",
            hint="back"),
    Binding(("minus",), "last", "-", "the view that was shown last"),
    Binding(("up", "k"), "up", "up k", "one row up", "rows"),
    Binding(("down", "j"), "down", "down j", "one row down", "rows"),
    Binding(("pageup", "ctrl+b"), "page_up", "page up", "one screen up", "rows"),
    Binding(("pagedown", "ctrl+f"), "page_down", "page down", "one screen down", "rows"),
    Binding(("home", "g"), "first", "home g", "the first row", "rows"),
    Binding(("end", "G"), "end", "end G", "the last row, and stay there", "rows"),
    Binding(("greater_than_sign", "full_stop"), "sort", ">", "sort by the next column", "rows"),
    Binding(("less_than_sign", "comma"), "sort_back", "<", "sort by the column before", "rows"),
    Binding(("exclamation_mark", "I"), "reverse", "!", "turn the order round", "rows"),
    Binding(("d",), "describe", "d", "describe: the job's report, the node's or device's page",
            "rows"),
    Binding(("l",), "logs", "l", "output of the job", "rows", "output", views=JOB_ROWS),
    Binding(("w",), "why", "w", "why it waits or runs as it does", "rows", "why",
            views=JOB_ROWS),
    Binding(("t",), "traces", "t", "where the device's time goes, second by second", "rows",
            "time", views=DEVICE_ROWS),
    Binding(("y",), "object", "y", "the row as JSON, as `-o json` has it", "rows"),
    Binding(("space",), "pause", "space", "stop and resume reading, or the replay"),
    Binding(("right",), "later", "right", "one second later", "replay", "later"),
    Binding(("left",), "earlier", "left", "one second earlier", "replay", "earlier"),
    Binding(("shift+right", "L"), "much_later", "shift-right L", "ten seconds later", "replay"),
    Binding(("shift+left", "H"), "much_earlier", "shift-left H", "ten seconds earlier", "replay"),
    Binding(("right_square_bracket",), "next_event", "]", "to the next event", "replay", "event"),
    Binding(("left_square_bracket",), "event_before", "[", "to the event before", "replay"),
    Binding(("plus", "equals_sign"), "faster", "+", "twice as fast, up to 64 times", "replay",
            "faster"),
    Binding(("underscore",), "slower", "_", "half as fast, down to a quarter", "replay"),
    Binding(("r", "ctrl+r"), "read", "r", "read now"),
    Binding(("s",), "shell", "s", "a shell of yours, with STOKER_STATE and STOKER_JOB set",
            "change"),
    Binding(("ctrl+d",), "cancel", "ctrl-d", "cancel the job, or all jobs of the array",
            "change", "cancel", views=JOB_ROWS),
    Binding(("c",), "cordon", "c", "keep new jobs off the device", "change", "cordon",
            views=DEVICE_ROWS),
    Binding(("u",), "uncordon", "u", "let jobs onto the device, or the node, again", "change",
            "uncordon", views=(*DEVICE_ROWS, "cluster")),
    Binding(("x",), "drain", "x", "take no new jobs on the node", "change", "drain",
            views=("cluster",)),
    Binding(("a",), "acknowledge", "a", "acknowledge the alert: somebody has seen it", "change",
            "acknowledge", views=ALERT_ROWS),
    Binding(("q", "ctrl+c"), "quit", "q ctrl-c", "quit", hint="quit"),
)  # fmt: skip
"""All keys."""

BY_KEY: Final = {key: binding for binding in BINDINGS for key in binding.keys}
DESTRUCTIVE: Final = ("cancel", "cordon", "drain", "uncordon", "acknowledge")
"""The actions that change the cluster: they are confirmed first."""


def of_view(view: str, *, readonly: bool, replay: bool = False) -> list[Binding]:
    """Return the bindings that a view has, live or in a replay."""
    return [
        binding
        for binding in BINDINGS
        if (not binding.views or view in binding.views)
        and not (binding.where == "change" and (readonly or replay))
        and (binding.where != "replay" or replay)
    ]


def hints(view: str, *, readonly: bool, replay: bool = False) -> list[tuple[str, str]]:
    """Return (key, word) of the bottom line: the keys of every view before those of this one."""
    found = [b for b in of_view(view, readonly=readonly, replay=replay) if b.hint]
    found.sort(key=lambda binding: bool(binding.views) or binding.where == "replay")
    shown = ((b.shown.split(" ")[0].replace("VIEW", "").replace("TEXT", ""), b.hint) for b in found)
    return list(shown)


def help_rows(view: str, *, readonly: bool, replay: bool = False) -> list[tuple[str, str]]:
    """Return (keys, what they do) of the bindings that a view has, live or in a replay."""
    rows = []
    for binding in of_view(view, readonly=readonly, replay=replay):
        asks = ", after a confirmation" if binding.action in DESTRUCTIVE else ""
        rows.append((binding.shown, binding.says + asks))
    return rows


def page_rows() -> list[str]:
    """Return the lines of the table of keys on the user's page."""
    lines = ["| key | what it does | where |", "|---|---|---|"]
    for binding in BINDINGS:
        asks = "; asks first" if binding.action in DESTRUCTIVE else ""
        where = ", ".join(f"`{view}`" for view in binding.views) or "everywhere"
        where = "in a replay" if binding.where == "replay" else where
        lines.append(f"| `{binding.shown}` | {binding.says}{asks} | {where} |")
    return lines
