# SPDX-License-Identifier: Apache-2.0
"""Marks prove each planted fault of a cluster, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stoker.tui.chaos import marks
from stoker.tui.chaos.marks import JobMark

S = 10**9


def told(text: str, once: set[int] | None = None, exclusive: set[int] | None = None) -> list[str]:
    """Return what is wrong with marks written as `JOB.ATTEMPT HOST SECONDS`."""
    found = []
    for line in text.split("\n"):
        if words := line.split():
            job, attempt = words[0].split(".")
            found += [
                JobMark(int(job), int(attempt), words[1], int(float(t) * S)) for t in words[2:]
            ]
    return list(marks.violations(marks.presences(found), once or set(), exclusive or set()))


RIGHT = """
1.1 a 0 1 2
1.2 b 3 4 5
2.1 a 2.5 3
3.1 b 5.1 6
4.1 c 0 9
5.1 c 1 2
"""


def test_attempts_that_follow_each_other_are_right() -> None:
    assert told(RIGHT, once={2, 3, 4, 5}, exclusive={1, 2, 3}) == []


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("2.1 a 1.5", "the device of a had two jobs at one time: 1.1 on a from 0.000 s to 2.000 s"),
        ("3.1 b 4.5", "the device of b had two jobs at one time"),
        ("2.2 b 9", "job 2 may run once and ran 2.1 on a"),
        ("2.1 b 9", "job 2 may run once and ran 2.1 on a"),
        ("1.1 a 3.5", "two attempts of job 1 ran at one time: 1.1 on a"),
        ("1.2 c 4", "two attempts of job 1 ran at one time: 1.2 on b"),
    ],
)
def test_each_planted_fault_is_found(more: str, why: str) -> None:
    found = told(RIGHT + more, once={2, 3, 4, 5}, exclusive={1, 2, 3})
    assert any(each.startswith(why) for each in found), found


def test_an_attempt_that_ran_within_another_is_found() -> None:
    """The one that ended last counts, not the one that began last."""
    found = told("1.1 a 0 9\n2.1 a 10 11\n3.1 a 1 2\n4.1 a 5 6", exclusive={1, 3, 4})
    assert len(found) == 2 and all("1.1 on a" in each for each in found)


def test_the_script_leaves_marks_that_are_read(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    places = {"STOKER_JOB_ID": "7", "STOKER_ATTEMPT": "2", "STOKER_NODE": "a"}
    program = marks.argv(3, 0.01, path)
    subprocess.run(program, env={"PATH": "/usr/bin:/bin", **places}, check=True)
    found = marks.read(path.read_text() + "8 1 b\n8 1 b 1x\n8 1 b 17")
    assert [each[:3] for each in found] == [(7, 2, "a")] * 3 + [(8, 1, "b")]
    assert [each.t_ns for each in found[:3]] == sorted(each.t_ns for each in found[:3])
