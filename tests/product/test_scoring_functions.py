# SPDX-License-Identifier: Apache-2.0
"""Scoring functions of an administrator, on a scheduler that runs: one decides between two nodes;
one that raises, loops, lies or sleeps for 10 s only lets the built-in policy decide."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from product_node import LiveNode, live_node, wait_until

CHEAP = """
def score(job, candidates):
    return {row["node"]: row["cpus_free"] for row in candidates if row["devices"]}
"""
BAD = {
    "raises": ("def score(job, candidates):\n    raise RuntimeError('no')\n", "raised an error"),
    "leaves": ("import os\ndef score(job, candidates):\n    os._exit(3)\n", "raised an error"),
    "loops": ("def score(job, candidates):\n    while True: pass\n", "took too long"),
    "sleeps": ("import time\ndef score(job, candidates):\n    time.sleep(10)\n", "took too long"),
    "lies": ("def score(job, candidates):\n    return 'much'\n", "gave no valid scores"),
    "nan": ("def score(job, candidates):\n    return [float('nan')]\n", "gave no valid scores"),
    "other": ("def score(job, candidates):\n    return {'nowhere': 1}\n", "gave no valid scores"),
    "prints": ("def score(job, candidates):\n    print('x' * 99)\n", "gave no valid scores"),
    "broken": ("def score(job candidates)\n", "cannot be loaded"),
    "empty": ("", "cannot be loaded"),
}
"""Sources that give no scores, and what the decision says of each."""


def offer(node: LiveNode, name: str, source: str) -> Path:
    folder = node.root / "placements"
    folder.mkdir(mode=0o755, exist_ok=True)
    file = folder / f"{name}.py"
    file.write_text(source)
    file.chmod(0o644)
    return file


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    with live_node() as made:
        for name, (source, _) in BAD.items():
            offer(made, name, source)
        offer(made, "cheap", CHEAP)
        yield made


def explained(node: LiveNode, placement: str) -> str:
    job = node.submit("true", gpu_milli=1000, placement=placement)
    assert node.wait(job).state == "succeeded"
    return node.explained(job)


def says(node: LiveNode, placement: str, said: str) -> None:
    """Wait until a job's explanation says this: on a busy machine any function may be too late."""
    wait_until(lambda: said in explained(node, placement), said, 120)


def test_a_function_decides(node: LiveNode) -> None:
    says(node, "user:cheap", "placed as the scoring function said")
    offer(node, "steady", "def score(job, candidates):\n    return [12.5 for _ in candidates]\n")
    says(node, "user:steady", ": score 12.5")


@pytest.mark.parametrize("name", BAD)
def test_a_function_that_fails_lets_the_built_in_policy_decide(node: LiveNode, name: str) -> None:
    said = f"its scoring function {BAD[name][1]}: placed by the policy best instead"
    says(node, f"user:{name}", said)


def test_others_are_placed_while_a_function_does_not_answer(node: LiveNode) -> None:
    offer(node, "slow", BAD["sleeps"][0])
    slow = node.submit("true", cpu_milli=1000, placement="user:slow")
    assert node.run("true", cpu_milli=1000).state == "succeeded"
    assert node.wait(slow).state == "succeeded"


def test_a_function_that_was_mended_is_used_at_once(node: LiveNode) -> None:
    offer(node, "mended", BAD["sleeps"][0])
    says(node, "user:mended", "took too long")
    offer(node, "mended", CHEAP)
    says(node, "user:mended", "as the scoring function said")


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        ("none", None, "no scoring function is called 'none'"),
        ("../../etc/passwd", None, "not the name of a scoring function"),
        ("open", 0o646, "may be changed by others"),
    ],
)
def test_what_may_not_be_used_is_refused(
    node: LiveNode, name: str, mode: int | None, said: str
) -> None:
    if mode is not None:
        offer(node, name, CHEAP).chmod(mode)
    done = node.stoker("run", "--placement", f"user:{name}", "--", "true", check=False)
    assert done.returncode != 0
    assert said in done.stderr.decode()
