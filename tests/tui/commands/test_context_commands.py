# SPDX-License-Identifier: Apache-2.0
"""The verb `context`, run as a process: it says which node is meant, and changes that by name."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def stoker(node: Any, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stoker", "context", *words],
        env=node.environment | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_saved_context_is_listed_and_used(node: Any) -> None:
    assert "no context is saved" in stoker(node, "list").stdout
    shown = stoker(node).stdout
    assert node.url in shown and "context.json" in shown
    assert "use it: stoker context use lab" in stoker(node, "save", "lab").stdout
    done = stoker(node, "use", "lab")
    assert (done.returncode, done.stderr) == (0, "") and node.url in done.stdout
    assert stoker(node, "list").stdout.startswith("* lab  ")
    done = stoker(node, "use", "lab", STOKER_STATE="/nowhere")
    assert "STOKER_STATE is set and goes before it" in done.stderr


def test_a_program_reads_the_context_in_use_and_the_saved_ones(node: Any) -> None:
    found = json.loads(stoker(node, "-o", "json").stdout)
    assert found["url"] == node.url and found["chosen_by"].endswith("context.json")
    assert stoker(node, "list", "-o", "jsonl").stdout == ""
    assert stoker(node, "save", "lab").returncode == 0
    (saved,) = json.loads(stoker(node, "list", "-o", "json").stdout)["contexts"]
    assert (saved["name"], saved["url"], saved["user"]) == ("lab", found["url"], found["user"])
    assert stoker(node, "list", "-o", "name").stdout == "lab\n"


def test_a_wrong_name_is_one_line_with_what_there_is(node: Any) -> None:
    done = stoker(node, "use", "home")
    assert done.returncode and "no context is named 'home'. None is saved;" in done.stderr
    assert stoker(node, "save", "lab").returncode == 0
    assert "There are: lab" in stoker(node, "use", "home").stderr
    assert "Traceback" not in done.stderr
