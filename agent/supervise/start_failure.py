# SPDX-License-Identifier: Apache-2.0
"""The reason of a failed start in one line, from the supervisor's reports and the process's log.

Pure. A process that refused its stored state (3) or a setting (2) gives `up` its exit code, and so
does a port that the broker could not have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stoker.agent.state.state_folder import REGISTRAR
from stoker.agent.supervise.process_table import ORDER
from stoker.mesh.broker.broker_program import BROKER
from stoker.native.errors import Corrupt, Refused, StokerError

CHARS_MAX = 400
"""The length to which a line is cut; the log has all of it."""
_NATS = re.compile(r"^\[\d+\] \S+ \S+ \[(?P<level>[A-Z]{3})\] (?P<text>.*)$")
_KINDS: dict[int, type[StokerError]] = {kind.exit_code: kind for kind in (Refused, Corrupt)}


class FailedStart(msgspec.Struct, frozen=True):
    """A start that does not succeed, by the failing process `name` and its latest event, `text`.

    `code` is its exit code, None while it runs. `failures` counts its failures in a row. `statuses`
    and `notes` are those of the processes that are not ready.
    """

    name: str
    text: str
    code: int | None = None
    failures: int = 0
    statuses: Mapping[str, str] = msgspec.field(default_factory=dict)
    notes: Mapping[str, str] = msgspec.field(default_factory=dict)

    def after(self, report: Mapping[str, Any]) -> FailedStart:
        """Return this start after one more report of the supervisor."""
        if report["event"] == "status":
            return msgspec.structs.replace(
                self, statuses={**self.statuses, report["name"]: report["text"]}
            )
        name, text = report["name"], report["text"]
        if not report["failures"]:  # an end that was requested, or its reason
            notes = self.notes if text.startswith("ended") else {**self.notes, name: text}
            return msgspec.structs.replace(self, notes=notes)
        return FailedStart(
            name, text, report["code"], report["failures"], self.statuses, self.notes
        )

    @property
    def is_corrupt(self) -> bool:
        """True if a process refused the stored state, so that another start would change
        nothing."""
        return self.code == Corrupt.exit_code


def cause(ended: FailedStart, lines: Sequence[str], *, hint: str) -> StokerError:
    """Return the error for people. `lines`: the end of that process's log."""
    if ended.code is None:
        everyone = (*ORDER, REGISTRAR)
        waits = [f"{name} says {ended.statuses[name]}" for name in everyone if _waits(ended, name)]
        waits += [f"{name}: {text}" for name, text in ended.notes.items()]
        return StokerError("; ".join([f"{ended.name}: {ended.text}", *waits]), hint=hint)
    last = last_error(lines)
    kind = _KINDS.get(ended.code, StokerError)
    if ended.name == BROKER and "bind: " in last:
        kind = Refused
    how = ended.text.partition(";")[0]  # without the time of the next start
    return kind(f"{ended.name}: {last} ({how})" if last else f"{ended.name}: {how}", hint=hint)


def _waits(ended: FailedStart, name: str) -> bool:
    return not ended.statuses.get(name, "ok").startswith("ok")


def last_error(lines: Sequence[str]) -> str:
    """Return the last error line, else the last line, without fields that only a log needs."""
    read = [_read(line) for line in lines if line.strip()]
    errors = [text for text, wrong in read if wrong]
    text = (errors or [text for text, _ in read] or [""])[-1]
    return text if len(text) <= CHARS_MAX else f"{text[:CHARS_MAX]}..."


def _read(line: str) -> tuple[str, bool]:
    """Return (text, is an error) of a line of nats-server, of structlog, or of a program."""
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
