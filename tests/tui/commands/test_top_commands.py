# SPDX-License-Identifier: Apache-2.0
"""`stoker top` against a fake node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any


def stoker(node: Any, *words: str, cwd: Path | None = None) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "stoker", *words],
        env=node.environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_a_wrong_view_or_a_missing_subject_is_one_line(node: Any) -> None:
    for words, said in ((("jbos",), b"no view is called 'jbos'"), (("node",), b"needs a node")):
        done = stoker(node, "top", *words)
        assert done.returncode == 2 and done.stderr.count(b"\n") == 1
        assert said in done.stderr


def test_top_into_a_pipe_is_one_frame_of_text(node: Any) -> None:
    for noun in ("node", "device", "job", "kernel", "alert"):
        node.answers[f"{noun}.list"] = lambda asked, noun=noun: {
            "schema": "stoker/v1",
            f"{noun}s": [],
        }
    done = stoker(node, "top")
    assert done.returncode == 0, done.stderr
    assert b"no jobs" in done.stdout and b"\x1b" not in done.stdout
    assert b"STALE" not in done.stdout, "everything was answered"
