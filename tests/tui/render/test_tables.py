# SPDX-License-Identifier: Apache-2.0
"""The six output forms, for people and programs, and untrusted text in each."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest

from stoker.tui.render import nouns, tables, text
from stoker.tui.render.columns import CELL_MAX

NOW = 1_700_000_010_000_000_000
JOBS: list[dict[str, Any]] = [
    {
        "job": 1,
        "name": "train",
        "user": "alice",
        "state": "succeeded",
        "times": {
            "submitted_ns": NOW - 10_000_000_000,
            "started_ns": NOW - 9_000_000_000,
            "ended_ns": NOW - 4_000_000_000,
        },
        "exit_code": 0,
        "signal": None,
        "spec": {"argv": ["python", "x.py"], "gpu_milli": 5, "env": {"A": "1"}},
        "reason": "",
        "decision": {"node": "vm", "devices": [{"index": 0, "id": "pocl-0", "milli": 5}]},
    },
    {
        "job": 12,
        "name": "=cmd()\x1b]0;x\x07",
        "user": "bob",
        "state": "pending",
        "times": {"submitted_ns": NOW - 500_000_000, "started_ns": None, "ended_ns": None},
        "spec": {"argv": ["true"], "gpu_milli": 2000},
        "decision": None,
    },
]


def test_a_table_is_aligned_and_printable() -> None:
    lines = tables.render(nouns.JOBS, JOBS, "table", now_ns=NOW).splitlines()
    assert lines[0].split() == [column.title for column in nouns.JOBS.columns if not column.wide]
    assert lines[1].startswith("  1  train")
    assert "0.005" in lines[1] and "5 s" in lines[1] and "vm/pocl-0:0.005" in lines[1]
    assert lines[2].startswith(" 12  =cmd()?]0;x?")
    assert all(line.isprintable() for line in lines)
    start = lines[0].index("STATE")
    assert lines[1][start:].startswith("succeeded") and lines[2][start:].startswith("pending")


def test_a_list_of_jobs_says_why_each_is_where_it_is() -> None:
    late = {"rank": 6, "kind": "slow"}
    rows = [
        JOBS[1] | {"name": "", "reason": "accepted", "waits": "1 ahead in the queue"},
        JOBS[0] | {"state": "running", "reason": "reported by the node"},
        JOBS[0] | {"state": "running", "reason": "reported by the node", "troubles": [late]},
        JOBS[0] | {"reason": "exit code 0"},
        JOBS[1] | {"reason": "accepted", "waits": ""},
    ]
    lines = tables.render(nouns.JOBS, rows, "table", now_ns=NOW).splitlines()
    reasons = [line[lines[0].index("REASON") :] for line in lines[1:]]
    tells = "stoker explain 12 tells why"
    assert reasons == ["1 ahead in the queue", "-", "slow rank 6", "exit code 0", tells]
    assert lines[1].startswith(" 12  true")  # the program of a job without a name


def test_the_row_of_an_array_claims_nothing_that_is_true_of_one_job_alone() -> None:
    array = {"first": 1, "size": 4, "index": 0, "states": {"failed": 1, "succeeded": 3}}
    row = JOBS[0] | {"state": "failed", "exit_code": 3, "reason": "exit code 3", "array": array}
    heading, line = tables.render(nouns.JOBS, [row], "wide", now_ns=NOW).splitlines()
    cells = dict(zip(re.split(r"\s{2,}", heading), re.split(r"\s{2,}", line), strict=True))
    assert (cells["JOB"], cells["STATE"], cells["ARRAY"]) == ("1-4", "1 failed", "4 jobs")
    assert cells["REASON"] == "3 succeeded"
    array |= {"first": 100_000, "size": 15_000, "states": {"failed": 9_999, "succeeded": 5_001}}
    lines = tables.render(nouns.JOBS, [row, JOBS[0]], "table", now_ns=NOW, columns=80).splitlines()
    assert max(map(len, lines)) <= 80 and "100000-114999" in lines[1] and "REASON" in lines[0]
    assert {cells[title] for title in ("TOOK", "EXIT", "WHERE", "ATTEMPT")} == {"-"}
    array["states"] = {"succeeded": 4}
    row |= {"state": "succeeded"}
    assert tables.render(nouns.JOBS, [row], "table", now_ns=NOW).splitlines()[1].endswith("-")


def test_wide_shows_more_and_cuts_nothing() -> None:
    long = [JOBS[0] | {"spec": {"argv": ["python", "x" * 200]}}]
    assert "x" * 200 in tables.render(nouns.JOBS, long, "wide", now_ns=NOW)
    assert "COMMAND" not in tables.render(nouns.JOBS, long, "table", now_ns=NOW)


def test_a_cell_is_cut_in_a_table() -> None:
    shown = tables.render(nouns.JOBS, [JOBS[0] | {"name": "漢" * 100}], "table", now_ns=NOW)
    cell = shown.splitlines()[1].split("alice")[0].split("1  ", 1)[1].strip()
    assert cell.endswith("…") and text.cells(cell) <= CELL_MAX


def test_json_carries_the_schema_and_plain_numbers() -> None:
    value = json.loads(tables.render(nouns.JOBS, JOBS, "json"))
    assert value["schema"] == "stoker/v1"
    assert value["jobs"] == JOBS


def test_jsonl_is_one_object_a_line() -> None:
    lines = tables.render(nouns.JOBS, JOBS, "jsonl").splitlines()
    assert [json.loads(line)["job"] for line in lines] == [1, 12]
    assert all(json.loads(line)["schema"] == "stoker/v1" for line in lines)


def test_csv_has_every_field_once_and_no_formula() -> None:
    rows = list(csv.DictReader(io.StringIO(tables.render(nouns.JOBS, JOBS, "csv"))))
    assert rows[0]["times.submitted_ns"] == str(NOW - 10_000_000_000)
    assert rows[1]["name"].startswith("'=cmd()")
    assert rows[1]["times.ended_ns"] == ""
    assert json.loads(rows[0]["spec.argv"]) == ["python", "x.py"]
    assert json.loads(rows[0]["spec.env"]) == {"A": "1"}


def test_csv_moves_no_terminal() -> None:
    """A reason is a user's text, and csv goes to terminals too."""
    row = JOBS[0] | {"reason": "bad\x1b]0;owned\x07\r\nline"}
    shown = tables.render(nouns.JOBS, [row], "csv")
    assert "bad?]0;owned???line" in shown
    assert all(char.isprintable() for char in shown.replace("\n", ""))


def test_name_is_one_name_a_line() -> None:
    assert tables.render(nouns.JOBS, JOBS, "name") == "1\n12\n"


def test_csv_moves_no_cursor() -> None:
    job = {**JOBS[0], "reason": "\x1b[2J\x9b31mowned\x07", "name": "\r=1"}
    shown = tables.render(nouns.JOBS, [job], "csv")
    assert "?[2J?31mowned?" in shown
    assert "'?=1" in shown
    assert not any(not char.isprintable() for char in shown if char != "\n")


@pytest.mark.parametrize("output", ["jsonl", "csv", "name"])
def test_no_rows_are_no_text_for_programs(output: tables.Output) -> None:
    assert tables.render(nouns.JOBS, [], output) == ""


def test_no_rows_are_said_to_a_person() -> None:
    assert tables.render(nouns.JOBS, [], "table") == "no jobs\n"


def test_a_reading_without_a_value_is_a_dash() -> None:
    row = {"id": "pocl-0", "node": "vm", "index": 3, "kind": "cpu", "granted_milli": 250}
    shown = tables.render(nouns.DEVICES, [row], "table").splitlines()
    assert shown[1].split()[:3] == ["pocl-0", "vm:3", "cpu"]
    assert "0.75" in shown[1]
    assert shown[1].split()[-3:] == ["-", "-", "-"]


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({}, "ok"),
        ({"unavailable": "sick: a link is down (port 2)"}, "sick"),
        ({"cordoned": "a new fan"}, "cordoned"),
        ({"state": "lost", "unavailable": "lost: not on its bus"}, "lost"),
    ],
)
def test_no_device_that_gets_no_jobs_is_ok(more: dict[str, str], state: str) -> None:
    row = {"id": "GPU-1", "node": "vm", "index": 0, "kind": "gpu", "state": "ok", **more}
    head, line = tables.render(nouns.DEVICES, [row], "wide").splitlines()
    at = head.index("STATE")
    assert line[at:].startswith(f"{state} ")
