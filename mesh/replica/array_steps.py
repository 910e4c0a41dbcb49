# SPDX-License-Identifier: Apache-2.0
"""The steps of arrays of one record in an entry: they begin, their jobs get records, the rest ends.

Pure. Owns the rule that an array follows from the log alone: no replica makes a job of it but by a
command.
"""

from __future__ import annotations

from stoker.mesh.log.entry import ArrayBlob, ArrayCancelBlob, RangeEndBlob
from stoker.mesh.replica import followed_jobs
from stoker.mesh.replica.entry_step import EntryStep
from stoker.native.errors import Corrupt
from stoker.scheduler.array_ends import ArrayEnd
from stoker.scheduler.book import Book, Job
from stoker.scheduler.effects import StateChanged
from stoker.scheduler.job_arrays import ArrayImage
from stoker.scheduler.reasons import Reason, sentence

ENDS_SINCE = 4
"""The first feature level at which arrays keep how their jobs ended, beside their states."""


def submitted(book: Book, effect: StateChanged, step: EntryStep) -> Job:
    """Add the record of a job of an array, of the first one behind the array itself."""
    blob = step.arrays.pop(effect.command, None)
    if blob is not None:
        size = blob.indexes.size
        at = step.entry.now_ns
        told = (bytes(blob.spec), blob.request, at, blob.indexes)
        book.submit_array(ArrayImage(effect.job, blob.owner, *told, bytes(size)))
    array = book.arrays.of(effect.job)
    if array is None:
        raise Corrupt(f"log entry {step.index}: command {effect.command} has no job with it")
    record = book.submit_next(effect.job, array, sentence(effect.reason))
    if blob is not None:  # the others have their turn once nothing keeps the first one
        followed_jobs.follow(book, record.job, record.spec)
    return record


def take(book: Book, blob: ArrayBlob | ArrayCancelBlob | RangeEndBlob, step: EntryStep) -> None:
    """Keep an array for the command that begins it, cancel what waits in a part of one, or note
    who was told of the end of one."""
    if isinstance(blob, RangeEndBlob):
        for job, number in blob.told:
            book.arrays.ranges.told(job, number)
        return
    if isinstance(blob, ArrayBlob):
        step.arrays[blob.command] = blob
        return
    step.applied.changed += book.arrays.cancel(blob.first, blob.low, blob.high, blob.reason)


def end(book: Book, record: Job, level: int) -> None:
    """Encode the record of a job that is over, and keep how it ended in its array."""
    if level >= ENDS_SINCE:
        why = ArrayEnd(record.reason, record.exit_code, record.signal)
        book.arrays.note_end(record.job, why)
    book.end(record)


def doomed(book: Book, effect: StateChanged, step: EntryStep) -> None:
    """Cancel what waits in the array of a job that never starts, for the reason that it has."""
    if effect.reason == Reason.AFTER_FAILED and (array := book.arrays.of(effect.job)) is not None:
        why = book.get(effect.job).reason
        step.applied.changed += book.arrays.cancel(array.first, array.first, array.last, why)
