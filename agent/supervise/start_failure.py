# SPDX-License-Identifier: Apache-2.0
"""Why a start failed, in one line: what the supervisor reported of a process and what that process
wrote last.

Pure. Owns the exit code of a start that failed: a process that refused its stored state (3) or a
setting (2) ends `up` with the same code, and so does a port that the broker could not have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stoker.agent.supervise.process_table import BROKER, ORDER
from stoker.native.errors import Corrupt, Refused, StokerError

CHARS_MAX = 400
"""A line that is longer is cut: the whole of it is in the log."""
_NATS = re.compile(r"^\[\d+\] \S+ \S+ \[(?P<level>[A-Z]{3})\] (?P<text>.*)$")
_KINDS: dict[int, type[StokerError]] = {kind.exit_code: kind for kind in (Refused, Corrupt)}


@dataclass(frozen=True, slots=True)
class FailedStart:
    """What is known of a start that does not get on: the process, what it did, its exit code (None:
    it has not ended), how often in a row, what each process says that is not ready, and what was
    done to it on purpose."""

    name: str
    text: str
    code: int | None = None
    failures: int = 0
    statuses: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    def heard(self, report: Mapping[str, Any]) -> FailedStart:
        """After one more report of the supervisor."""
        if report["event"] == "status":
            return replace(self, statuses={**self.statuses, report["name"]: report["text"]})
        name, text = report["name"], report["text"]
        if not report["failures"]:  # no end of its own: why it was restarted, or that it was
            kept = self.notes if text.startswith("ended") else {**self.notes, name: text}
            return replace(self, notes=kept)
        return FailedStart(
            name, text, report["code"], report["failures"], self.statuses, self.notes
        )

    @property
    def is_corrupt(self) -> bool:
        """Whether a process refused what is stored: to start it again would change nothing."""
        return self.code == Corrupt.exit_code


def cause(ended: FailedStart, lines: Sequence[str], *, hint: str) -> StokerError:
    """The error that a person gets. `lines`: the last of that process's log."""
    if ended.code is None:
        waits = [f"{name} says {ended.statuses[name]}" for name in ORDER if _waits(ended, name)]
        waits += [f"{name}: {text}" for name, text in ended.notes.items()]
        return StokerError("; ".join([f"{ended.name}: {ended.text}", *waits]), hint=hint)
    said = last_error(lines)
    kind = _KINDS.get(ended.code, StokerError)
    if ended.name == BROKER and "bind: " in said:
        kind = Refused
    how = ended.text.partition(";")[0]  # without when it would have been started again
    return kind(f"{ended.name}: {said} ({how})" if said else f"{ended.name}: {how}", hint=hint)


def _waits(ended: FailedStart, name: str) -> bool:
    return not ended.statuses.get(name, "ok").startswith("ok")


def last_error(lines: Sequence[str]) -> str:
    """The last line that is an error, else the last line, without what only a log needs."""
    read = [_read(line) for line in lines if line.strip()]
    errors = [text for text, wrong in read if wrong]
    text = (errors or [text for text, _ in read] or [""])[-1]
    return text if len(text) <= CHARS_MAX else f"{text[:CHARS_MAX]}..."


def _read(line: str) -> tuple[str, bool]:
    """(text, whether it is an error) of one line: of nats-server, of structlog, or of a program."""
    if found := _NATS.match(line):
        return found["text"], found["level"] in ("FTL", "ERR")
    try:
        record = json.loads(line)
    except ValueError:
        return line.strip(), False
    if not isinstance(record, dict):
        return line.strip(), False
    words = [str(record[name]) for name in ("event", "error", "detail", "hint") if record.get(name)]
    return ": ".join(words), record.get("level") in ("error", "critical")
