# SPDX-License-Identifier: Apache-2.0
"""The array of which the log has only the first jobs, since it takes more than one entry.

The append pipeline adds the rest, or has the first jobs cancelled if nobody will. Owns the rule
that makes this known to every replica: the newest job is not its array's last one.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.mesh.log.entry import CancelBlob
from stoker.scheduler.book import Book
from stoker.scheduler.core import Core

WITHDRAWN = "its array could not be taken whole"
"""The reason of the cancel of its first jobs, in which no user is named."""


class OpenArray(NamedTuple):
    """The jobs `first` to `first + taken - 1` of an array of `size`."""

    first: int
    size: int
    taken: int
    is_withdrawn: bool = False


def newest(book: Book, core: Core) -> OpenArray | None:
    """Return the array of the newest job if some of its jobs were never submitted."""
    number = next((job for job, _ in book.newest(None)), 0)
    spec = book.get(number).decoded_spec() if number else None
    if spec is None or spec.array_place + 1 >= spec.array_size:
        return None
    first = number - spec.array_place
    taken = core.counters()["submitted"] + 1 - first  # jobs are numbered from 1 without a gap
    return OpenArray(first, spec.array_size, taken) if taken < spec.array_size else None


def noted(known: OpenArray | None, blob: CancelBlob) -> OpenArray | None:
    """Return the open array behind the record of a cancel, which may be that of its first jobs."""
    if known is None or (blob.user, blob.reason) != ("", WITHDRAWN):
        return known
    return known._replace(is_withdrawn=True)


def left_to_cancel(book: Book, known: OpenArray) -> list[int]:
    """Return the jobs of this array that go on."""
    records = map(book.live, range(known.first, known.first + known.taken))
    return [each.job for each in records if each is not None and each.state != "stopping"]
