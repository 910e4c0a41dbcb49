# SPDX-License-Identifier: Apache-2.0
"""Percentiles read, looked up between their rows, and refused where they are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.native.errors import BadRequest
from stoker.scheduler.sim.telemetry import Distribution, read_telemetry

HEADER = "metric,cdf_pct,value\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "cdf.csv"
    path.write_text(text)
    return path


def test_metrics_are_read_by_name(tmp_path: Path) -> None:
    text = HEADER + "w,0,60\nw,50,100\nw,100,400\nc,0,20\nc,100,80\n"
    assert read_telemetry(written(tmp_path, text)) == {
        "w": Distribution((0, 50, 100), (60, 100, 400)),
        "c": Distribution((0, 100), (20, 80)),
    }


@pytest.mark.parametrize(
    ("percent", "value"),
    [(0, 60), (25, 80), (50, 100), (75, 250), (100, 400), (-1, 60), (101, 400)],
)
def test_between_rows_it_is_linear(percent: float, value: float) -> None:
    assert Distribution((0, 50, 100), (60, 100, 400)).at(percent) == pytest.approx(value)


def test_means_of_parts() -> None:
    watts = Distribution((0, 50, 100), (60, 100, 400))
    assert watts.mean(0, 50) == pytest.approx(80)
    assert watts.mean(0, 100) == pytest.approx((80 + 250) / 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ":1: the columns"),
        ("a,b,c\n", ":1: the columns"),
        (HEADER + "w,0\n", ":2: no metric"),
        (HEADER + "w,0,x\n", ":2: no metric"),
        (HEADER + "w,101,1\n", ":2: no percentile"),
        (HEADER + "w,1,inf\n", ":2: no percentile"),
        (HEADER + "w,0,5\nw,0,6\n", ":3: percentiles and their values must ascend"),
        (HEADER + "w,0,5\nw,1,4\n", ":3: percentiles and their values must ascend"),
        (HEADER + 'w,0,"5"x\n', ": no CSV text"),
    ],
)
def test_what_is_no_table_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadRequest, match=rf"cdf\.csv{told}"):
        read_telemetry(written(tmp_path, text))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="No such file"):
        read_telemetry(tmp_path / "no.csv")
