# SPDX-License-Identifier: Apache-2.0
"""Selectors, by which a verb names jobs: `3`, `1,4-6`, `last`, `all`.

Parsing is pure; only the node knows the numbers that `last` and `all` stand for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from stoker.native.errors import BadRequest

JOBS_MAX = 10_000
"""The most jobs that one selector may name by number."""

JOB_MAX = (1 << 63) - 1
_ITEM = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?", re.ASCII)


class Selector(NamedTuple):
    """Ranges of job numbers, both ends included, or one of the words `last` and `all`."""

    ranges: tuple[tuple[int, int], ...] = ()
    last: bool = False
    all: bool = False

    def numbers(self) -> Iterator[int]:
        """The named numbers in the order given, each once."""
        seen: set[int] = set()
        for first, last in self.ranges:
            for job in range(first, last + 1):
                if job not in seen:
                    seen.add(job)
                    yield job


def parse(text: str) -> Selector:
    """A selector from its text; BadRequest names the part that is wrong."""
    if text in ("last", "all"):
        return Selector(last=text == "last", all=text == "all")
    ranges = tuple(_range(item.strip(), text) for item in text.split(","))
    if sum(last - first + 1 for first, last in ranges) > JOBS_MAX:
        raise BadRequest(f"selector {text!r} names more than {JOBS_MAX} jobs")
    return Selector(ranges)


def _range(item: str, text: str) -> tuple[int, int]:
    match = _ITEM.fullmatch(item)
    if match is None:
        where = f" in {text!r}" if item != text else ""
        raise BadRequest(
            f"{item!r}{where} selects no job", hint="use a number, 1,4-6, `last` or `all`"
        )
    first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last <= JOB_MAX:
        raise BadRequest(f"{item!r} is no range of job numbers, which count from 1")
    return first, last
