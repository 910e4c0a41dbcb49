# SPDX-License-Identifier: Apache-2.0
"""`stoker trace` into a file, against a fake node."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TIMELINE = bytes(range(256)) * 40


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


def piece(asked: dict[str, Any]) -> dict[str, Any]:
    data = TIMELINE[asked["offset"] : asked["offset"] + 4000]
    end = asked["offset"] + len(data)
    return {
        "schema": "stoker/v1",
        "job": asked["job"],
        "data": base64.b64encode(data).decode(),
        "next_offset": end,
        "eof": end == len(TIMELINE),
        "size_bytes": len(TIMELINE),
    }


def test_a_timeline_is_fetched_whole(fakes: Any, node: Any, tmp_path: Path) -> None:
    node.answers["job.trace"] = piece
    node.answers["job.get"] = lambda asked: fakes.job_view(7)
    done = stoker(node, "trace", cwd=tmp_path)
    assert done.stdout == b"job-7.perfetto-trace (10240 bytes)\n", done.stderr
    assert (tmp_path / "job-7.perfetto-trace").read_bytes() == TIMELINE
    stoker(node, "trace", "3", "--file", str(tmp_path / "deep/er.trace"))
    assert (tmp_path / "deep/er.trace").read_bytes() == TIMELINE


def test_a_timeline_that_breaks_off_leaves_no_file(fakes: Any, node: Any, tmp_path: Path) -> None:
    def broken(asked: dict[str, Any]) -> dict[str, Any]:
        if asked["offset"]:
            return dict(fakes.failure("not_found", "the node has forgotten job 3"))
        return piece(asked)

    node.answers["job.trace"] = broken
    done = stoker(node, "trace", "3", "--file", str(tmp_path / "out/x"))
    assert done.returncode == 1
    assert done.stderr == b"stoker: the node has forgotten job 3\n"
    assert not list((tmp_path / "out").iterdir())


def test_a_timeline_is_of_one_job(node: Any) -> None:
    done = stoker(node, "trace", "1-2")
    assert done.returncode == 2 and node.seen == []


def test_what_was_written_has_every_output_form(fakes: Any, node: Any, tmp_path: Path) -> None:
    node.answers["job.trace"] = piece
    node.answers["job.get"] = lambda asked: fakes.job_view(7)
    path = str(tmp_path / "a.trace")
    told = {form: stoker(node, "trace", "7", "--file", path, "-o", form).stdout.decode()
            for form in ("table", "json", "jsonl", "csv", "name")}  # fmt: skip
    assert told["table"] == f"{path} (10240 bytes)\n" and told["name"] == f"{path}\n"
    row = {"schema": "stoker/v1", "file": path, "job": 7, "rank": 0, "size_bytes": 10240}
    assert json.loads(told["json"]) == json.loads(told["jsonl"]) == row
    assert told["csv"] == f"file,job,rank,size_bytes\n{path},7,0,10240\n"
