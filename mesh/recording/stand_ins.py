# SPDX-License-Identifier: Apache-2.0
"""Replaces what a recording says of people and places by stand-ins, so that it can be shared.

Pure. Owns that one name has one stand-in in all of a recording, and that a name which is known from
one row is found in the sentences of all others. Numbers, times, states, models of devices, kernels
and queues stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from stoker.mesh.recording import blocks
from stoker.mesh.recording.blocks import Recorded
from stoker.mesh.recording.recording_file import RecordingFile
from stoker.mesh.recording.sampler import OF_ARRAYS

WORD_LEAST: Final = 4
"""Shorter words of a command, such as `-c`, stand in sentences for other things too."""
WORDS: Final[Mapping[str, str]] = {
    "user": "user", "node": "node", "boot_id": "boot", "cluster": "cluster", "genesis": "genesis",
    "public_key": "key", "cwd": "path", "master": "address", "comm": "program", "exe": "program",
    "by": "user", "stoker.job.user": "user", "stoker.job.name": "name",
}  # fmt: skip
"""The key of a text that is replaced as a whole -> the beginning of its stand-in."""
LISTS: Final[Mapping[str, str]] = {
    "nodes": "node", "labels": "label", "taints": "label", "require": "label", "avoid": "label",
    "tolerate": "label", "prefer": "label",
}  # fmt: skip
KEPT: Final = frozenset(
    ("schema", "state", "kind", "unit", "vendor", "model", "mode", "wanted", "code", "what",
     "bottleneck", "exclusivity", "topology", "numa", "rank_trouble", "device_kind", "trace",
     "device_ids_mode", "arch", "compute", "driver", "profile", "part", "restart", "order",
     "placement", "version", "source", "checkpoint_signal")
)  # fmt: skip
"""The keys of texts that come from a list of stoker's own, or name hardware and software."""
PATTERNS: Final = (
    ("path", r"(?<![\w./~-])~?(?:/[\w.@+,=%~-]+)+/?"),
    ("address", r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\d)"),
    ("card", r"\b(?:GPU|MIG)-[0-9A-Fa-f-]{8,}"),
)
"""(kind, pattern) of what is replaced wherever it stands, known before or not; a path is replaced
as a whole, with every name in it."""


def redacted(data: bytes, name: str) -> bytes:
    """Return the recording with stand-ins, without its damaged parts."""
    file = RecordingFile(data, name)
    stand_ins = StandIns()
    for _, moments in _moments(file):
        for each in moments:
            stand_ins.learn(each)
    made = bytearray(blocks.HEADER)
    for key, moments in _moments(file):
        made += blocks.encode([stand_ins.replaced(each) for each in moments], key=key)
    return bytes(made)


def _moments(file: RecordingFile) -> Iterator[tuple[bool, list[Recorded]]]:
    for block in file.blocks:
        yield block.key, list(file.moments(block))


class StandIns:
    """The stand-ins of one recording. First everything is learned, then everything replaced.

    `kept` are the beginnings of paths and addresses that say nothing of people or places.
    """

    def __init__(self, kept: tuple[str, ...] = ()) -> None:
        self._kept = kept
        self._known: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._found: re.Pattern[str] | None = None

    def learn(self, recorded: Recorded) -> None:
        """Remember every name that stands in a place of names."""
        self._found = None
        for key, row in recorded.rows.items():
            if row is not None:
                self._learn(recorded.part, msgspec.json.decode(row))
            if recorded.part == "nodes":
                self._of("node", key)

    def know(self, kind: str, name: str) -> None:
        """Remember a name; its stand-in begins with `kind`."""
        self._found = None
        self._of(kind, name)

    def text(self, text: str) -> str:
        """Return a text with a stand-in for each path, address, card and known name."""
        return self._known.get(text) or self._pattern().sub(self._standing, text)

    def replaced(self, recorded: Recorded) -> Recorded:
        """Return one change with stand-ins, in its keys too."""
        rows = {
            self.text(key): None if row is None else self._row(recorded.part, row)
            for key, row in recorded.rows.items()
        }
        return Recorded(recorded.t_ns, recorded.part, rows, recorded.whole)

    # --- learning --------------------------------------------------------------------------------

    def _of(self, kind: str, name: str) -> str:
        """Return the stand-in of a name, a new one at the first time."""
        known = self._known.get(name)
        if known is None and name:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            known = self._known[name] = f"{kind}-{self._counts[kind]}"
        return known or ""

    def _learn(self, part: str, value: Any) -> None:
        for key, text in _texts(value):
            if key in WORDS or key in LISTS:
                self._of(WORDS.get(key) or LISTS[key], text)
                if key == "master":  # host:port
                    self._of("node", text.rpartition(":")[0])
            elif key == "argv":
                self._learn_word(text)
        if part in ("jobs", OF_ARRAYS, "job") and isinstance(value, dict):
            self._of("name", value.get("name") or "")
        for row in _processes(value):
            self._of("program", row.get("name") or "")

    def _learn_word(self, word: str) -> None:
        """Remember a word of a command, and what stands behind the `=` of an option."""
        for piece in (word, *word.split("="), *word.split()):
            if len(piece) >= WORD_LEAST and not piece.isdigit():
                self._of("word", piece)

    # --- replacing -------------------------------------------------------------------------------

    def _row(self, part: str, row: bytes) -> bytes:
        value = msgspec.json.decode(row)
        made = self._value(value, "")
        if part == "about":
            made |= {"redacted": True}
        elif part in ("events", "summaries"):  # an array, whose kind is a word of stoker's
            made[1] = value[1]
        return msgspec.json.encode(made)

    def _value(self, value: Any, key: str) -> Any:
        if isinstance(value, str):
            return value if key in KEPT else self.text(value)
        if isinstance(value, list):
            if key == "argv" and value:
                return [self._of("command", "\0".join(value))]
            return [self._value(each, key) for each in value]
        if isinstance(value, dict):
            return {
                each: None if each in ("uid", "env") else self._value(inner, each)
                for each, inner in value.items()
            }
        return value

    def _standing(self, found: re.Match[str]) -> str:
        kind = found.lastgroup or ""
        if kind in ("path", "address") and found[0].startswith(self._kept):
            return found[0]
        return self._of(kind, found[0])

    def _pattern(self) -> re.Pattern[str]:
        """Return the pattern of everything that is replaced; of known names the longest is first,
        and none is found within another word."""
        if self._found is None:
            names = sorted(filter(None, self._known), key=len, reverse=True)
            choice = "|".join(map(re.escape, names)) or r"(?!)"
            kinds = [f"(?P<{kind}>{pattern})" for kind, pattern in PATTERNS]
            known = rf"(?P<name>(?<![A-Za-z0-9])(?:{choice})(?![A-Za-z0-9]))"
            self._found = re.compile("|".join((*kinds, known)))
        return self._found


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield (key, text) of all texts of a row; those of a list have the list's key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, key)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, name)


def _processes(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of processes, which have a pid, whatever they are in."""
    if isinstance(value, dict):
        if "pid" in value:
            yield value
        for inner in value.values():
            yield from _processes(inner)
    elif isinstance(value, list):
        for each in value:
            yield from _processes(each)
