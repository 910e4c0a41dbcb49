# SPDX-License-Identifier: Apache-2.0
"""The forms for programs: what goes in comes out again, and no text becomes more than text."""

from __future__ import annotations

import csv
import io
import json

import pytest

from stoker.native import row_forms

ROWS = [
    {"id": "a", "watts": 1.5, "times": {"ended_ns": None}, "jobs": [7, 8], "why": "=1+1\x1b[2J"},
    {"id": "b", "watts": None, "times": {"ended_ns": 3}, "jobs": [], "why": "", "more": True},
]


def test_json_is_one_object_and_jsonl_one_for_each_row() -> None:
    found = json.loads(row_forms.rendered("cards", "id", ROWS, "json"))
    assert found == {"schema": "stoker/v1", "cards": ROWS}
    lines = row_forms.rendered("cards", "id", ROWS, "jsonl").splitlines()
    assert [json.loads(line) for line in lines] == [{"schema": "stoker/v1", **r} for r in ROWS]


def test_csv_has_all_fields_and_no_cell_that_a_spreadsheet_would_evaluate() -> None:
    first, second = csv.DictReader(io.StringIO(row_forms.rendered("cards", "id", ROWS, "csv")))
    assert list(first) == ["id", "watts", "times.ended_ns", "jobs", "why", "more"]
    assert first["why"] == "'=1+1?[2J" and (first["jobs"], first["more"]) == ("[7,8]", "")
    assert (second["watts"], second["times.ended_ns"]) == ("", "3")


@pytest.mark.parametrize(
    ("device", "short"),
    [("GPU-e3e70682-c209-4cac", "GPU-e3e70682"), ("pocl-0", "pocl-0"), ("sim-0123456789",) * 2],
)
def test_a_short_id_is_the_beginning_of_the_whole(device: str, short: str) -> None:
    assert row_forms.short_id(device) == short and device.startswith(short)
    assert len(short) <= row_forms.SHORT_ID + 2


@pytest.mark.parametrize(("form", "text"), [("jsonl", ""), ("csv", ""), ("name", "")])
def test_no_rows_are_no_text(form: row_forms.Form, text: str) -> None:
    assert row_forms.rendered("cards", "id", [], form) == text
    assert row_forms.rendered("cards", "id", ROWS, "name") == "a\nb\n"
