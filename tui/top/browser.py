# SPDX-License-Identifier: Apache-2.0
"""The place of a person in the live view, and what a key does there: a machine without I/O.

Owns the promise that nothing is changed without a confirmation, and nothing at all with
`--readonly`. The shell presses keys, carries out the effects, and paints what `frame` makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from stoker.tui.top.answers import Answers
from stoker.tui.top.keys import BY_KEY, DESTRUCTIVE, Binding
from stoker.tui.top.table import window
from stoker.tui.top.view import View
from stoker.tui.top.views import words
from stoker.tui.top.visit import Visit, chosen, pattern_fault, place

VISITS_MAX = 50
"""The most views that `esc` leads back through."""
TYPED_MAX = 200
"""The longest command or filter."""


class Quit(NamedTuple):
    """End the view."""


class ReadNow(NamedTuple):
    """Read what the shown view needs, at once."""


class OpenShell(NamedTuple):
    """Hand the terminal to a shell of the user for a while."""

    job: str


class ViewChange(NamedTuple):
    """A confirmed change of the cluster."""

    action: str
    subject: str


class Seek(NamedTuple):
    """Another moment of a replay, `by` seconds or events from here, another speed, or a stop."""

    what: Literal["by", "event", "speed", "play"]
    by: int = 0


Effect = Quit | ReadNow | OpenShell | ViewChange | Seek
Mode = Literal["browse", "command", "filter", "confirm", "help", "object"]


class Browser(msgspec.Struct):
    """The whole state of the view. `rows` is the room of the list, as the last frame had it."""

    views: Mapping[str, View]
    visits: list[Visit]
    readonly: bool = False
    mode: Mode = "browse"
    typed: str = ""
    pending: ViewChange | None = None
    said: str = ""
    """One line for the person, until the next key."""
    paused: bool = False
    replay: bool = False
    """True if it shows a recording, in which nothing can be changed."""
    rows: int = 1
    last: Visit | None = None
    answers: Answers = msgspec.field(default_factory=Answers)
    """The answers of the last key, from which a command without a subject takes one."""
    _shown: list[Any] = msgspec.field(default_factory=list)

    @property
    def visit(self) -> Visit:
        """The view that is shown."""
        return self.visits[-1]

    # --- what is shown ---------------------------------------------------------------------------

    def items(self, answers: Answers) -> Sequence[Any]:
        """Return the rows that pass the filter, in their order; they are made anew for a change."""
        visit = self.visit
        if visit.view.items is None:
            return ()
        all_items = visit.view.items(answers, visit.subject)
        asked = (visit.view.name, visit.subject, visit.pattern, visit.sort, visit.down)
        if not self._shown or self._shown[0] is not all_items or self._shown[1] != asked:
            self._shown = [all_items, asked, chosen(all_items, visit)]
        found: Sequence[Any] = self._shown[2]
        return found

    def settle(self, items: Sequence[Any], count: int, rows: int) -> Visit:
        """Put the cursor where its key is now, within a room of `rows`; return the visit."""
        visit, self.rows = self.visit, max(rows, 1)
        cursor = visit.cursor
        if visit.follow:
            cursor = count - 1
        elif items and visit.key:
            cursor = place(items, visit)
        cursor, offset = window(cursor, visit.offset, count, rows)
        key = visit.view.key(items[cursor]) if items else ""
        self.visits[-1] = msgspec.structs.replace(
            visit, cursor=cursor, offset=offset, key=key or visit.key
        )
        return self.visit

    # --- keys ------------------------------------------------------------------------------------

    def press(self, key: str, character: str | None, answers: Answers) -> list[Effect]:
        """Take one key, by Textual's name of it, and return what the shell must do."""
        self.said, self.answers = "", answers
        if key == "ctrl+c":
            return [Quit()]
        if self.mode in ("command", "filter"):
            return self._type(key, character)
        if self.mode == "confirm":
            return self._confirm(key)
        if self.mode in ("help", "object"):
            return self._read_page(key)
        binding = BY_KEY.get(key)
        if binding is None:
            return []
        return self._act(binding, answers)

    def _act(self, binding: Binding, answers: Answers) -> list[Effect]:
        if binding.where == "change" and self.replay:
            self.said = f"{binding.shown} changes something, and this is a recording"
            return []
        if binding.where == "replay":
            return [_SEEKS[binding.action]] if self.replay else []
        if binding.where == "change" and self.readonly:
            self.said = f"{binding.shown} changes something, and this view is --readonly"
            return []
        if binding.action in _MOVES:
            self._move(binding.action)
            return []
        item = self.under_cursor(answers)
        if binding.action in DESTRUCTIVE:
            return self._propose(binding, item)
        return _ACTIONS[binding.action](self, item)

    def under_cursor(self, answers: Answers) -> Any:
        """Return the item under the cursor, or None."""
        items = self.items(answers)
        visit = self.visit
        if not items:
            return None
        at = place(items, visit) if visit.key else visit.cursor
        return items[min(max(at, 0), len(items) - 1)]

    def _move(self, action: str) -> None:
        visit = self.visit
        page = max(1, self.rows - 1)
        by = {"up": -1, "down": 1, "page_up": -page, "page_down": page}.get(action, 0)
        if action == "first":
            cursor = 0
        elif action == "end":
            cursor = 1 << 40
        elif visit.view.items is None:  # whole lines have no cursor: the window moves
            cursor = visit.offset + by if by < 0 else visit.offset + self.rows - 1 + by
        else:
            cursor = visit.cursor + by
        follow = action == "end" and visit.view.ends
        self.visits[-1] = msgspec.structs.replace(
            visit, cursor=max(cursor, 0), key="", follow=follow
        )

    # --- views ---------------------------------------------------------------------------------

    def open(self, name: str, subject: str = "") -> list[Effect]:
        """Show a view; one that has a subject already shown is not opened twice."""
        view = self.views[name]
        if view is self.visit.view and subject == self.visit.subject:
            return []
        self.last = self.visit
        self.visits.append(Visit(view, subject, follow=view.ends))
        del self.visits[: max(0, len(self.visits) - VISITS_MAX)]
        return [ReadNow()]

    def _back(self, item: Any) -> list[Effect]:
        if self.visit.pattern:
            self.visits[-1] = msgspec.structs.replace(
                self.visit, pattern="", key="", cursor=0, offset=0
            )
            return []
        if len(self.visits) == 1:
            return []
        self.last = self.visits.pop()
        return [ReadNow()]

    def _last(self, item: Any) -> list[Effect]:
        if self.last is None:
            return []
        self.last, shown = self.visit, self.last
        self.visits.append(shown)
        return [ReadNow()]

    def _into(self, item: Any) -> list[Effect]:
        view = self.visit.view
        if item is None or not view.into:
            return []
        return self.open(view.into_of(item) or view.into, view.into_subject(item))

    def job_of(self, item: Any) -> str:
        """Return the job that a row stands for, or that the whole view is about."""
        view = self.visit.view
        number = view.job(item) if item is not None else ""
        return number or (self.visit.subject if view.subject == "job" else "")

    def jobs_of(self, item: Any) -> str:
        """Return all jobs that a row stands for."""
        several = self.visit.view.several(item) if item is not None else ""
        return several or self.job_of(item)

    def node_of(self, item: Any) -> str:
        """Return the node that a row stands for."""
        view = self.visit.view
        name = view.node(item) if item is not None else ""
        return name or (self.visit.subject if view.subject == "node" else "")

    def device_of(self, item: Any) -> str:
        """Return the device that a row or the view stands for, as `node:device`."""
        view = self.visit.view
        name = view.device(item) if item is not None else ""
        return name or (self.visit.subject if view.subject == "device" else "")

    def _of_job(self, view: str, item: Any) -> list[Effect]:
        job = self.job_of(item)
        if not job:
            self.said = "there is no job under the cursor"
            return []
        return self.open(view, job)

    def _describe(self, item: Any) -> list[Effect]:
        job, device, node = self.job_of(item), self.device_of(item), self.node_of(item)
        if job:
            return self.open("job", job)
        if device:
            return self.open("device", device)
        return self.open("node", node) if node else []

    def _traces(self, item: Any) -> list[Effect]:
        device = self.device_of(item)
        if not device:
            self.said = "there is no device under the cursor"
            return []
        return self.open("traces", device)

    # --- modes ---------------------------------------------------------------------------------

    def _mode(self, mode: Mode, typed: str = "") -> list[Effect]:
        self.mode, self.typed = mode, typed
        return []

    def _object(self, item: Any) -> list[Effect]:
        return self._mode("object")

    def _read_page(self, key: str) -> list[Effect]:
        binding = BY_KEY.get(key)
        if binding is not None and binding.action in _MOVES:
            self._move_page(binding.action)
        elif key == "q" or key in ("escape", "question_mark", "y", "h", "enter"):
            self.mode, self.typed = "browse", ""
        return []

    def _move_page(self, action: str) -> None:
        """Scroll the help or an object; `typed` holds the number of lines above the screen."""
        page = max(1, self.rows - 1)
        by = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "end": 1 << 20}
        now = int(self.typed or 0)
        self.typed = str(max(0, 0 if action == "first" else now + by.get(action, 0)))

    def _type(self, key: str, character: str | None) -> list[Effect]:
        if key == "escape":
            self.mode = "browse"
        elif key == "backspace":
            self.typed = self.typed[:-1]
        elif key == "ctrl+u":
            self.typed = ""
        elif key == "tab" and self.mode == "command":
            self.typed = self._completed()
        elif key == "enter":
            return self._entered()
        elif character and character.isprintable() and len(self.typed) < TYPED_MAX:
            self.typed += character
        return []

    def _completed(self) -> str:
        fitting = [name for name in self.views if name.startswith(self.typed)]
        return fitting[0] if fitting else self.typed

    def _entered(self) -> list[Effect]:
        mode, typed = self.mode, self.typed.strip()
        self.mode = "browse"
        if mode == "filter":
            return self._filter(typed)
        return self.go(typed)

    def _filter(self, pattern: str) -> list[Effect]:
        fault = pattern_fault(pattern)
        if fault:
            self.said = f"/{pattern} is no pattern: {fault}"
            return []
        self.visits[-1] = msgspec.structs.replace(
            self.visit, pattern=pattern, key="", cursor=0, offset=0
        )
        return []

    def go(self, typed: str) -> list[Effect]:
        """Carry out a typed command: a view by its name or a beginning of it, and its subject."""
        name, _, subject = typed.partition(" ")
        if name in ("q", "quit", "exit"):
            return [Quit()]
        found = [view for view in self.views if view == name]
        found = found or [view for view in self.views if name and view.startswith(name)]
        if len(found) != 1:
            self.said = f"no view is called {name!r}: {', '.join(self.views)}"
            return []
        kind = self.views[found[0]].subject
        subject = (subject.strip() or self._known(kind)) if kind else ""
        if kind and not subject:
            self.said = f"{found[0]} needs a {kind}: `:{found[0]} {kind.upper()}`"
            return []
        return self.open(found[0], subject)

    def _known(self, kind: str) -> str:
        """Return the subject under the cursor, or else the first one that there is."""
        item, answers = self.under_cursor(self.answers), self.answers
        if kind == "job":
            return self.job_of(item) or next((str(job.job) for job in answers.jobs or ()), "")
        if kind == "array":
            here = self.visit.view.several(item) if item is not None else ""
            return here or next(filter(None, map(words.array, answers.jobs or ())), "")
        if kind == "node":
            return self.node_of(item) or next((node.node for node in answers.nodes or ()), "")
        devices = (f"{each.node}:{each.id}" for each in answers.devices or ())
        return self.device_of(item) or next(devices, "")

    # --- changes -------------------------------------------------------------------------------

    def _propose(self, binding: Binding, item: Any) -> list[Effect]:
        view = self.visit.view.name
        if binding.views and view not in binding.views:
            self.said = f"{binding.shown} does nothing in this view"
            return []
        subject = {
            "cancel": self.jobs_of(item),
            "cordon": self.device_of(item),
            "drain": self.node_of(item),
            "uncordon": self.device_of(item) or self.node_of(item),
            "acknowledge": self.visit.view.alert(item) if item is not None else "",
        }[binding.action]
        if not subject:
            self.said = "there is nothing under the cursor"
            return []
        self.pending, self.mode = ViewChange(binding.action, subject), "confirm"
        return []

    def _confirm(self, key: str) -> list[Effect]:
        pending, self.pending, self.mode = self.pending, None, "browse"
        if key == "y" and pending is not None:
            return [pending]
        self.said = "nothing was changed"
        return []

    def _pause(self, item: Any) -> list[Effect]:
        if self.replay:
            return [Seek("play")]
        self.paused = not self.paused
        return [] if self.paused else [ReadNow()]

    def _shell(self, item: Any) -> list[Effect]:
        return [OpenShell(self.job_of(item))]

    # --- order ---------------------------------------------------------------------------------

    def _sort(self, by: int) -> list[Effect]:
        visit = self.visit
        titles = ["", *(c.title for c in visit.view.columns if c.order is not None)]
        at = titles.index(visit.sort) if visit.sort in titles else 0
        self.visits[-1] = msgspec.structs.replace(visit, sort=titles[(at + by) % len(titles)])
        return []

    def _reverse(self, item: Any) -> list[Effect]:
        self.visits[-1] = msgspec.structs.replace(self.visit, down=not self.visit.down)
        return []


_MOVES = ("up", "down", "page_up", "page_down", "first", "end")
_SEEKS = {
    "later": Seek("by", 1),
    "earlier": Seek("by", -1),
    "much_later": Seek("by", 10),
    "much_earlier": Seek("by", -10),
    "next_event": Seek("event", 1),
    "event_before": Seek("event", -1),
    "faster": Seek("speed", 1),
    "slower": Seek("speed", -1),
}
_ACTIONS: dict[str, Callable[[Browser, Any], list[Effect]]] = {
    "help": lambda b, item: b._mode("help"),
    "command": lambda b, item: b._mode("command"),
    "filter": lambda b, item: b._mode("filter", b.visit.pattern),
    "into": Browser._into,
    "back": Browser._back,
    "last": Browser._last,
    "sort": lambda b, item: b._sort(1),
    "sort_back": lambda b, item: b._sort(-1),
    "reverse": Browser._reverse,
    "describe": Browser._describe,
    "logs": lambda b, item: b._of_job("logs", item),
    "why": lambda b, item: b._of_job("explain", item),
    "traces": Browser._traces,
    "object": Browser._object,
    "pause": Browser._pause,
    "read": lambda b, item: [ReadNow()],
    "shell": Browser._shell,
    "quit": lambda b, item: [Quit()],
}
