# SPDX-License-Identifier: Apache-2.0
"""Selectors, by which a verb names jobs: `3`, `1,4-6`, `1-10:2`, `last`, `all`, `@me`, a name.

Parsing is pure; only the node knows the numbers that words stand for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from stoker.native.errors import BadRequest

JOBS_MAX = 100_000
"""The most jobs that one selector may name by number."""

JOB_MAX = (1 << 63) - 1
ME = "@me"
_NAME = re.compile(r"[^\W\d][^,\s]*")
"""A name begins with a letter, so that nothing that is meant as a number is one."""
_ITEM = re.compile(r"[jJ]?(\d{1,19})(?:-[jJ]?(\d{1,19})(?::(\d{1,19}))?)?", re.ASCII)


class Selector(NamedTuple):
    """Ranges of job numbers, one of the words `last`, `all` and `@me`, or a job's name."""

    ranges: tuple[range, ...] = ()
    last: bool = False
    all: bool = False
    me: bool = False
    """The user's own jobs, also an administrator's."""
    name: str = ""

    def numbers(self) -> Iterator[int]:
        """The named numbers in the order given, each once."""
        seen: set[int] = set()
        for jobs in self.ranges:
            for job in jobs:
                if job not in seen:
                    seen.add(job)
                    yield job


def parse(text: str) -> Selector:
    """A selector from its text; BadRequest names the part that is wrong."""
    if text in ("last", "all"):
        return Selector(last=text == "last", all=text == "all")
    if text == ME:
        return Selector(me=True)
    if _NAME.fullmatch(text) and not _ITEM.fullmatch(text):
        return Selector(name=text)
    ranges = tuple(_range(item.strip(), text) for item in text.split(","))
    if sum(map(_size, ranges)) > JOBS_MAX:
        raise BadRequest(f"selector {text!r} names more than {JOBS_MAX} jobs")
    return Selector(ranges)


def _size(jobs: range) -> int:
    """The length of a range, which `len` refuses above 2**63."""
    return (jobs[-1] - jobs[0]) // jobs.step + 1


def _range(item: str, text: str) -> range:
    """One item as a range of job numbers: `3`, `j3`, `4-6`, every second one `4-10:2`."""
    match = _ITEM.fullmatch(item)
    if match is None:
        where = f" in {text!r}" if item != text else ""
        raise BadRequest(
            f"{item!r}{where} selects no job",
            hint="use a number, 1,4-6, 1-10:2, `last`, `all`, `@me` or a job's name",
        )
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if not 1 <= first <= last <= JOB_MAX or not step:
        raise BadRequest(f"{item!r} is no range of job numbers, which count from 1")
    return range(first, last + 1, step)
