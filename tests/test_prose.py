# SPDX-License-Identifier: Apache-2.0
"""Comments are sentences that stand alone: fragments without a head are found and refused.

A fragment is told by its first word, or by a first sentence that never comes to its main clause:
"Of ..." says nothing without the line above, "Until the lease ends." not what happens until then.
The rule is about comments, docstrings and the texts under constants, in Python and in C.
`python -m tests.test_prose` prints what is left.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clauses import is_fragment
from tests.comments import c_comments, python_comments

ROOT = Path(__file__).parents[1]
PYTHON = {".py", ".pyi"}
SUFFIXES = PYTHON | {".c", ".h", ".cpp"}
ELSEWHERE = ("probes/bpf/vmlinux/",)
"""Files that are generated from others' text."""
HEADLESS = re.compile(
    r"(?:Of|What|The same|Whose|Which|Who|Whether|How|Why|Likewise|Such|Also of|And)\b(?![^.]*\?)"
)
REASON = re.compile(r"Relied on by\b")


def files() -> list[Path]:
    argv = ["git", "-C", str(ROOT), "ls-files", "-z"]
    names = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split("\0")
    paths = [Path(name) for name in names if Path(name).suffix in SUFFIXES]
    return [
        path
        for path in paths
        if not (ROOT / path).is_symlink()
        and (ROOT / path).exists()
        and not str(path).startswith(ELSEWHERE)
    ]


def comments(path: Path) -> Iterator[tuple[int, str]]:
    text = (ROOT / path).read_text(encoding="utf-8")
    return python_comments(text) if path.suffix in PYTHON else c_comments(text)


def refused(text: str) -> bool:
    """True if a comment does not stand alone."""
    return bool(HEADLESS.match(text) or REASON.search(text)) or is_fragment(text)


def headless() -> list[str]:
    """Every comment that has no head, as "file:line: its beginning"."""
    return [
        f"{path}:{line}: {text.splitlines()[0][:70]}"
        for path in files()
        for line, text in comments(path)
        if text and refused(text)
    ]


def test_no_comment_is_headless() -> None:
    assert headless() == []


@pytest.mark.parametrize(
    "text",
    [
        "Until the lease ends.",
        "By uid, sorted.",
        "Without figures that change with each look.",
        "With the lock held.",
        "From records that follow each other.",
        "From the fault to the limit that the busy card has: 3 s.",
        "For `open`, the length from 0.01 to 600, which begins when every tracer has switched.",
        "As last read, or as another agent left it.",
        "As many bytes as there is room for.",
        "Of each card.",
        "In order, on a queue that all threads use: one at a time.",
        "When the open window began; 0 when none is open.",
        "Where records are sent from this node.",
        "Once a second, at a card of which there is no news.",
        "Only on a node where a job of the group runs, if any does.",
        "So many jobs that are over, each with a long command line.",
        "With the scheduler's own key, so that the broker stays up and every append is refused.",
        "Until another process of that name lives.",
        "Why a job waits.",
        "Which node the job is on.",
    ],
)
def test_a_fragment_is_refused(text: str) -> None:
    assert refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "Until the lease ends, jobs run on.",
        "Until the processes recognised the attacker they sent no key.",
        "By this symbol a program knows that the library is simulated.",
        "Without a drift the line is flat and goes through the newest pair.",
        "With MIG the real driver has no figures of processes.",
        "From here on no launch is timed unless `phase` says so.",
        "From now on write to this eventfd after each round with news.",
        "For one device, each kind that suffices is tried; the rest waits.",
        "As in the real driver, words after one that names no card are ignored.",
        "After a drain, send the new records and once a second the folded rows.",
        "After the barrier every call that began with the old word shows in its row.",
        "Before 6.16 two last threads that exit at once may both find the count at 0.",
        "Before that nothing is known and the choice is best fit.",
        "While a card is lost no wait for the others is answered later than at once.",
        "When a process dies with the lock the kernel wakes one waiter alone.",
        "If the shim has just died, its pidfd says so.",
        "Once a second every limit moves by the same part.",
        "Only attempts that were never reported as running may start.",
        "Over a user's limit, that user's oldest folder goes.",
        "In a gap that no call has ended yet, that is the thread that called last.",
        "Where does the time go?",
        "Bytes of a segment.",
        "Return the cards by uid, sorted.",
        "of the leader, as wait(2) reports it",
    ],
)
def test_a_sentence_passes(text: str) -> None:
    assert not refused(text)


def test_a_comment_behind_a_licence_line_is_judged_by_its_text() -> None:
    found = "# SPDX-License-Identifier: Apache-2.0\n# Of two cards,\n# the first.\nx = 1  # kept\n"
    assert list(python_comments(found)) == [(1, "Of two cards,\nthe first."), (4, "kept")]
    block = "/* SPDX-License-Identifier: Apache-2.0\n * Of two cards.\n */\n"
    lines = "// SPDX-License-Identifier: Apache-2.0\n// By uid.\nint x; /* Of y. */\n"
    assert list(c_comments(block)) == [(1, "Of two cards.")]
    assert list(c_comments(lines)) == [(1, "By uid."), (3, "Of y.")]


def test_a_licence_line_alone_is_no_comment() -> None:
    assert list(c_comments("// SPDX-License-Identifier: Apache-2.0\nint x;\n")) == [(1, "")]


if __name__ == "__main__":
    print("\n".join(headless()))
