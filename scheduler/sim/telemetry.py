# SPDX-License-Identifier: Apache-2.0
"""Published distributions of device telemetry: percentiles of power and temperature.

Reads `metric,cdf_pct,value` rows such as those made from the telemetry of AcmeTrace (Hu et al.,
NSDI'24); an unreadable row is reported with its line.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_left
from pathlib import Path
from typing import Final, NamedTuple

from stoker.native.errors import BadRequest

ROWS_MAX: Final = 100_000
COLUMNS: Final = ["metric", "cdf_pct", "value"]


class Distribution(NamedTuple):
    """The percentiles of one metric; both rows ascend, from 0 to 100 %."""

    percents: tuple[float, ...]
    values: tuple[float, ...]

    def at(self, percent: float) -> float:
        """Return the value that this percentage of samples does not exceed, interpolated."""
        place = bisect_left(self.percents, percent)
        if place == 0:
            return self.values[0]
        if place == len(self.percents):
            return self.values[-1]
        low, high = self.percents[place - 1], self.percents[place]
        part = (percent - low) / (high - low)
        return self.values[place - 1] + part * (self.values[place] - self.values[place - 1])

    def mean(self, low: float, high: float, steps: int = 200) -> float:
        """Return the mean of the samples between two percentiles."""
        width = (high - low) / steps
        return sum(self.at(low + width * (i + 0.5)) for i in range(steps)) / steps


def read_telemetry(path: Path) -> dict[str, Distribution]:
    """Return all metrics of the file by name. Raises BadRequest with file and line."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for line, cells in _rows(path):
        try:
            metric, percent, value = cells[0], float(cells[1]), float(cells[2])
        except (ValueError, IndexError) as error:
            raise BadRequest(f"{path}:{line}: no metric,cdf_pct,value") from error
        known = rows.setdefault(metric, [])
        if not (0 <= percent <= 100 and math.isfinite(value)):
            raise BadRequest(f"{path}:{line}: no percentile of a finite value")
        if known and not (percent > known[-1][0] and value >= known[-1][1]):
            raise BadRequest(f"{path}:{line}: percentiles and their values must ascend")
        known.append((percent, value))
    return {
        metric: Distribution(tuple(p for p, _ in known), tuple(v for _, v in known))
        for metric, known in rows.items()
    }


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file, strict=True)
            if next(reader, None) != COLUMNS:
                raise BadRequest(f"{path}:1: the columns are not {','.join(COLUMNS)}")
            rows: list[tuple[int, list[str]]] = []
            for cells in reader:
                if len(rows) == ROWS_MAX:
                    raise BadRequest(f"{path}:{reader.line_num}: more than {ROWS_MAX} rows")
                if cells:
                    rows.append((reader.line_num, cells))
            return rows
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadRequest(f"{path}: no CSV text: {error}") from error
