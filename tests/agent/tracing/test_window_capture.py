# SPDX-License-Identifier: Apache-2.0
"""The file of a window's records: whole up to its bound, the newest beyond it, the rest counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.agent.tracing import window_capture
from stoker.agent.tracing.window_capture import WindowCapture
from stoker.native import _trace


class Fold:
    """A fold that keeps its newest 100 records; record n is 64 bytes that say n."""

    def __init__(self) -> None:
        self.total = 7

    def events(self, first: int, most: int) -> tuple[int, int, bytes]:
        first = min(max(first, self.total - 100, 0), self.total)
        ends = first + min(self.total - first, most)
        return first, self.total, b"".join(n.to_bytes(64, "little") for n in range(first, ends))


def numbers(made: WindowCapture) -> list[int]:
    made.file.seek(0)
    data = made.file.read()
    return sorted(int.from_bytes(data[at : at + 64], "little") for at in range(0, len(data), 64))


def test_c_takes_as_many() -> None:
    assert _trace.layout()["timeline_file_max"] == window_capture.CAPTURE_MAX


def test_everything_since_the_windows_beginning(tmp_path: Path) -> None:
    fold: Any = Fold()
    made = WindowCapture(tmp_path / "records", fold)
    for more in (40, 0, 99, 1):
        fold.total += more
        made.drained()
    assert numbers(made) == list(range(7, 147))
    assert made.lost == 0
    made.close()
    assert list(tmp_path.iterdir()) == []


def test_beyond_the_bound_the_newest_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_capture, "CAPTURE_MAX", 64)
    fold: Any = Fold()
    made = WindowCapture(tmp_path / "records", fold)
    for _ in range(7):
        fold.total += 43
        made.drained()
    assert numbers(made) == list(range(fold.total - 64, fold.total))
    assert made.lost == 7 * 43 - 64
    made.close()


def test_what_was_overwritten_meanwhile_is_counted(tmp_path: Path) -> None:
    fold: Any = Fold()
    made = WindowCapture(tmp_path / "records", fold)
    fold.total += 250
    made.drained()
    assert numbers(made) == list(range(fold.total - 100, fold.total))
    assert made.lost == 150
    made.close()


def test_a_full_disk_costs_records(tmp_path: Path) -> None:
    fold: Any = Fold()
    made = WindowCapture(tmp_path / "records", fold)
    made.file.close()
    made._file = Path("/dev/full").open("w+b", buffering=0)  # noqa: SIM115  # closed by close()
    fold.total += 30
    made.drained()
    assert made.lost == 30
    made.close()
