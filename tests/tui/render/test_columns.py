# SPDX-License-Identifier: Apache-2.0
"""Tables in the width of a terminal: what is cut, which columns leave, and that each line fits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.tui.render import nouns, tables, text
from stoker.tui.render.columns import Column, Noun, lay_out

UUID = "GPU-e3e70682-c209-4cac-a29f-6fbed82c07cd"
COLUMNS = (
    Column("A", lambda row, now: str(row["a"])),
    Column("B", lambda row, now: str(row["b"]), least=4),
    Column("C", lambda row, now: str(row["c"]), leaves=2),
    Column("D", lambda row, now: str(row["d"]), leaves=1, least=3),
)


def devices(count: int) -> list[dict[str, Any]]:
    """Devices with the longest texts that real ones have."""
    row = {"id": UUID, "node": "node-17", "kind": "gpu", "sim": True, "granted_milli": 0}
    row |= {"model": "Intel(R) Data Center GPU Max 1550", "memory_bytes": 1 << 37}
    row |= {"busy_ratio": 0.9, "power_w": 646.0, "temperature_c": 61.0}
    return [row | {"index": i, "unavailable": "needs reset: Xid 79" * i} for i in range(count)]


def jobs(**fields: object) -> list[dict[str, Any]]:
    """A job on two simulated devices."""
    job = {"job": 4711, "name": "training of the large one", "user": "alice", "state": "succeeded"}
    placed = [{"index": i, "id": UUID, "milli": 1000, "sim": True} for i in (0, 1)]
    job |= {"times": {"submitted_ns": 1, "started_ns": 2, "ended_ns": 10**12}, "exit_code": 0}
    job |= {"spec": {"argv": ["x"], "gpu_milli": 2000}, "reason": "exit code 0 " * 6}
    return [job | {"decision": {"node": "node-17", "devices": placed}} | fields]


def test_the_widest_cells_are_cut_before_a_column_leaves() -> None:
    lines = [["1234", "bbbbbbbb", "cc", "ddddd"]]
    assert lay_out(COLUMNS, lines, None) == ([0, 1, 2, 3], [4, 8, 2, 5])
    assert lay_out(COLUMNS, lines, 25) == ([0, 1, 2, 3], [4, 8, 2, 5])
    assert lay_out(COLUMNS, lines, 21) == ([0, 1, 2, 3], [4, 4, 2, 5])
    assert lay_out(COLUMNS, lines, 18) == ([0, 1, 2], [4, 8, 2])
    assert lay_out(COLUMNS, lines, 13) == ([0, 1], [4, 7])
    assert lay_out(COLUMNS, lines, 3) == ([0, 1], [4, 4])  # too narrow for what must stay


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "M", "Z")), max_size=30)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS), min_size=1, max_size=5), st.integers(0, 120))
def test_a_table_fits_or_has_given_all_that_it_may(
    rows: list[tuple[str, str, str, str]], width: int
) -> None:
    stay, widths = lay_out(COLUMNS, rows, width)
    natural = [max(text.cells(row[i]) for row in [*rows, "ABCD"]) for i in range(4)]
    assert all(w <= natural[i] for i, w in zip(stay, widths, strict=True))
    if sum(widths) + 2 * (len(stay) - 1) > width:
        assert stay == [0, 1] and widths == [natural[0], min(natural[1], 4)]
    whole = sum(natural) + 6
    assert (whole <= width) <= ((stay, widths) == ([0, 1, 2, 3], natural))


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize(
    ("noun", "rows"),
    [(nouns.DEVICES, devices(4)), (nouns.JOBS, jobs()), (nouns.JOBS, jobs(state="running"))],
)
def test_each_line_fits_the_terminal(noun: Noun, rows: list[dict[str, Any]], width: int) -> None:
    shown = tables.render(noun, rows, "table", now_ns=10**12, columns=width).splitlines()
    assert max(map(text.cells, shown)) <= width
    assert all("SIM" in line for line in shown[1:])  # no cut hides that a device is simulated


def test_the_reason_outlives_what_is_known_elsewhere() -> None:
    head = tables.render(nouns.JOBS, jobs(), "table", columns=80).split("\n")[0].split()
    assert head == ["JOB", "NAME", "STATE", "TOOK", "WHERE", "REASON"]


def test_wide_is_as_wide_as_it_is() -> None:
    shown = tables.render(nouns.DEVICES, devices(1), "wide", columns=80)
    assert UUID in shown and UUID not in tables.render(nouns.DEVICES, devices(1), "table")
