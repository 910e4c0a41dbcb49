# SPDX-License-Identifier: Apache-2.0
"""The demo's verdict and its clean-up, without a node; the whole demo is tested end to end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.tui.demo import demo_job, private_node


def test_what_a_program_says_is_its_last_line() -> None:
    assert demo_job.said(b'warming up\n{"launches": 3}\n') == {"launches": 3}
    assert demo_job.said(b"no json\xff") == {"text": "no json\ufffd"}
    assert demo_job.said(b"[1]") == {"text": "[1]"}
    assert demo_job.said(b"") == {"text": ""}


@pytest.mark.parametrize(
    ("said", "counts", "failure"),
    [
        ({"saxpy": {"count": 5}, "read": {"count": 1}}, {"saxpy": 5}, ""),
        ({"saxpy": {"count": 5}}, {"saxpy": 4}, "saxpy 5 times, the tracer counted 4"),
        ({"saxpy": {"count": 5}}, {"saxpy": 5, "x": 1}, "x 0 times, the tracer counted 1"),
        ({"norm": {"count": 5}}, {}, "counted 0 (no segment)"),
        ({"text": "x"}, {"saxpy": 1}, "did not say"),
    ],
)
def test_the_count_must_be_exact(
    said: dict[str, Any], counts: dict[str, int], failure: str
) -> None:
    kernels = [{"name": name, "count": count} for name, count in counts.items()]
    job = {"kernels": kernels, "trace_absent": "" if counts else "no segment"}
    failures = list(demo_job.counted(job, said, demo_job.DemoWork(("x",))))
    assert (failure in failures[0]) if failure else not failures


def test_kernels_that_cannot_be_traced_are_not_counted() -> None:
    assert not list(
        demo_job.counted({"kernels": []}, {}, demo_job.DemoWork(("x",), untraced="no tracer"))
    )


def test_a_process_of_the_node_that_is_left_is_found(tmp_path: Path) -> None:
    assert not list(private_node.leftovers(tmp_path))
    command = [sys.executable, "-c", "print(flush=True); input()", str(tmp_path)]
    sleeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert sleeper.stdout is not None and sleeper.stdout.readline()  # it is what it will be
    try:
        assert list(private_node.leftovers(tmp_path)) == [f"process {sleeper.pid}"]
    finally:
        sleeper.kill()
        sleeper.communicate()


def test_a_node_that_does_not_start_leaves_no_folder(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(private_node.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(private_node.sys, "executable", "/bin/false")
    with pytest.raises(Exception, match="`stoker up` exited with 1"), private_node.running():
        raise AssertionError("not reached")
    assert not list(tmp_path.iterdir())


def test_the_cuda_program_of_a_checkout_is_found() -> None:
    assert demo_job.CUDA_PROGRAM.read_text().startswith("#")
