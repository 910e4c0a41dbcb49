# SPDX-License-Identifier: Apache-2.0
"""Generated files are what their declarations say; a changed declaration cannot slip through."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from generate import files, header, layout, tuples
from stoker.native import _core
from stoker.scheduler import records, wire_names
from tests.scheduler.test_records import COMMANDS

WIRE = files.CORE / "wire.h"


def read(tmp_path: Path, text: str) -> header.Header:
    (tmp_path / "wire.h").write_text(text)
    found = header.read(tmp_path / "wire.h")
    header.read_more(found, files.CORE / "wire_view.h", None)
    header.read_more(found, files.CORE / "core.h", files.PLAIN)
    return found


def test_the_generated_files_are_those_of_the_declarations() -> None:
    stale = [
        name
        for name, text in files.generated().items()
        if (files.ROOT / name).read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run `make generate` and commit what it writes"


def test_the_compiled_core_has_the_layout_of_the_python_side() -> None:
    assert layout.digest(files.records()) == wire_names.DIGEST == _core.LAYOUT


@pytest.mark.parametrize(
    ("one", "other"),
    [("estimate_ns", "group"), ("uid", "tenant"), ("min_run_s", "backoff_s"), ("retries", "kinds")],
)
def test_two_swapped_fields_of_one_size_are_another_layout(
    one: str, other: str, tmp_path: Path
) -> None:
    """Both are refused: the module that was compiled before, and the commands in the log."""
    text = WIRE.read_text()
    pattern = re.compile(rf"(uint\d+_t) ({one}|{other});")
    swap = {one: other, other: one}
    start = text.index("struct sk_request {")
    end = text.index("struct sk_share {")
    part = pattern.sub(lambda m: f"{m[1]} {swap[m[2]]};", text[start:end])
    changed = read(tmp_path, text[:start] + part + text[end:])
    assert changed.records["submit"].size == files.records().records["submit"].size
    assert layout.digest(changed) != _core.LAYOUT
    assert tuples.commands(changed) != (files.ROOT / "scheduler/wire_commands.py").read_text()


CHECK = re.compile(r"^SK_WIRE_AT\(sk_(\w+), (\w+), (\d+), (\d+)\);$", re.MULTILINE)


def test_each_field_of_a_command_is_packed_where_the_compiler_has_it() -> None:
    """The offsets of `wire_layout.h`, which the compiler checks, against the bytes of `pack`."""
    text = (files.CORE / "wire_layout.h").read_text()
    places: dict[tuple[str, str], tuple[int, int]] = {}
    for record, field, offset, size in CHECK.findall(text):
        places[record, field] = int(offset), int(size)
    request_at = places["submit", "request"][0]
    for (record, field), (offset, size) in list(places.items()):
        if record == "request":
            places["submit", field] = request_at + offset, size
    checked = 0
    for command in COMMANDS:
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(command).__name__).lower()
        raw = command.pack()
        for field, value in command._asdict().items():
            at = places.get(("place" if name == "prefer" else name, field))
            if at is None or not isinstance(value, int) or isinstance(value, bool):
                continue
            found = int.from_bytes(raw[at[0] : at[0] + at[1]], "little", signed=value < 0)
            assert found == value, f"{name}.{field}"
            checked += 1
    assert checked > 90


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("uint64_t leader;", "long leader;", "unknown type long"),
        ("uint64_t client;", "uint16_t small; uint64_t client;", "leaves a hole"),
        ("Python: Forget(job)", "Python: Forget(jobs)", "neither a member nor a flag"),
        ("Python: Cancel(job, reason=0)", "Python: Cancel(job)", "Cancel lacks reason"),
    ],
)
def test_a_declaration_that_is_not_understood_is_an_error(
    old: str, new: str, says: str, tmp_path: Path
) -> None:
    text = WIRE.read_text()
    assert old in text
    with pytest.raises(ValueError, match=says):
        tuples.commands(read(tmp_path, text.replace(old, new)))


def test_limits_and_states_are_those_of_the_header() -> None:
    assert records.STATES[0] == "pending" and records.STATE_CODES["lost"] == 9
    assert (wire_names.PRIORITY_MIN, wire_names.PRIORITY_MAX) == (-100, 100)
