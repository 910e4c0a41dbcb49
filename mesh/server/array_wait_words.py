# SPDX-License-Identifier: Apache-2.0
"""The reason why a job of an array waits that is no record yet: others of its array come first.

Pure. Owns the words about such a job, of which the core knows nothing.
"""

from __future__ import annotations

from stoker.mesh.wire import schema
from stoker.scheduler.book import Book, Job

CODE = "waits_in_its_array"


def waits(book: Book, job: Job) -> str:
    """Return why the job waits; empty if it does not wait for its turn in an array."""
    array = book.arrays.of(job.job)
    if array is None or book.live(job.job) is not None or job.state != "pending":
        return ""
    ahead = job.job - array.first - array.next
    most = array.image.indexes.most
    limit = f", and at most {most} of it go on at once" if most else ""
    text = (
        f"{ahead} jobs of its array that wait have their turn before it" if ahead else "it is next"
    )
    oldest = array.oldest("pending")
    return f"{text}{limit}" + (f": see job {oldest}" if oldest != job.job else "")


def reasons(book: Book, job: Job) -> tuple[schema.ReasonView, ...]:
    """Return the only reason in the explanation of such a job; none for others."""
    text = waits(book, job)
    return (schema.ReasonView(code=CODE, text=text),) if text else ()
