# SPDX-License-Identifier: Apache-2.0
"""The demo's verdict and its clean-up, without a node; the whole demo is tested end to end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.tui import demo, private_node


def test_what_a_program_says_is_its_last_line() -> None:
    assert demo.said(b'warming up\n{"launches": 3}\n') == {"launches": 3}
    assert demo.said(b"no json\xff") == {"text": "no json\ufffd"}
    assert demo.said(b"[1]") == {"text": "[1]"}
    assert demo.said(b"") == {"text": ""}


@pytest.mark.parametrize(
    ("said", "counts", "failure"),
    [
        ({"launches": 5}, [2, 3], ""),
        ({"launches": 5}, [2, 2], "launched 5 kernels, the tracer counted 4"),
        ({"launches": 5}, [], "counted 0 (no segment)"),
        ({"text": "x"}, [1], "did not say"),
    ],
)
def test_the_count_must_be_exact(said: dict[str, Any], counts: list[int], failure: str) -> None:
    job = {"kernels": [{"count": count} for count in counts]}
    job |= {"trace_absent": "" if counts else "no segment"}  # type: ignore[dict-item]
    failures = list(demo._counted(job, said, demo.Work(("x",))))
    assert (failure in failures[0]) if failure else not failures


def test_kernels_that_cannot_be_traced_are_not_counted() -> None:
    assert not list(demo._counted({"kernels": []}, {}, demo.Work(("x",), untraced="no tracer")))


def test_a_process_of_the_node_that_is_left_is_found(tmp_path: Path) -> None:
    assert not list(private_node.leftovers(tmp_path))
    sleeper = subprocess.Popen(
        [sys.executable, "-c", "input()", str(tmp_path)], stdin=subprocess.PIPE
    )
    try:
        assert list(private_node.leftovers(tmp_path)) == [f"process {sleeper.pid}"]
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_node_that_does_not_start_leaves_no_folder(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(private_node.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(private_node.sys, "executable", "/bin/false")
    with pytest.raises(Exception, match="`stoker up` exited with 1"), private_node.running():
        raise AssertionError("not reached")
    assert not list(tmp_path.iterdir())
