# SPDX-License-Identifier: Apache-2.0
"""The jobs that a selector names, found at the node, and selections as the scheduler reads them.

The scheduler knows numbers, ranges, `last` and `all`. What else people type, such as a job's name,
becomes numbers here, so that every verb takes every form.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.native.errors import BadRequest, NotFound
from stoker.scheduler.nouns import ENDED
from stoker.tui.options.selectors import Selector

OPEN: tuple[Any, ...] = ("pending", "starting", "running", "stopping")
OVER = tuple(sorted(ENDED))
PARTS_MAX = 200
"""The parts of one selection, within what the scheduler reads at once."""
NAMES_AMONG = 15_000
"""A name is looked for among as many of the user's newest jobs."""
LIST_MAX = schema.LIST_MAX
ROWS_MAX = 256
"""An array of more jobs is taken whole by its name."""


async def numbers(
    client: Client, selector: Selector, words: str, states: Sequence[str] = ()
) -> list[int]:
    """The numbers of the selected jobs; NotFound if there are none. `states` narrows `all`, `@me`
    and a name."""
    if selector.last:
        return [(await client.get("last")).job]
    if selector.name:
        found = await _named(client, selector.name, states)
    elif selector.all or selector.me:
        user = client.user if selector.me else ""
        request = schema.ListRequest(states=tuple(states), user=user, limit=schema.LIST_MAX)  # type: ignore[arg-type]
        found = [job.job async for job in client.list_all(request)]
    else:
        found = list(selector.numbers())
    if not found:
        raise NotFound(f"no job matches {words!r}")
    return found


async def _named(client: Client, name: str, states: Sequence[str]) -> list[int]:
    """The user's jobs of this name: those in `states`, else those that are not over, else the
    newest one, with all jobs of its array if it is of one."""
    request = schema.ListRequest(user=client.user, states=tuple(states) or OPEN, limit=LIST_MAX)  # type: ignore[arg-type]
    if found := await _matches(client, request, name):
        return found
    newest = [] if states else await _newest(client, replace(request, states=()), name)
    if newest:
        return newest
    raise NotFound(
        f"no job of {client.user} is named {name!r}",
        hint="a job is named by its number, 1,4-6, 1-10:2, `last`, `all`, `@me` or its --name",
    )


async def _newest(client: Client, request: schema.ListRequest, name: str) -> list[int]:
    """The newest job of a name, or those of the array that it is of."""
    found: list[int] = []
    first, looked = None, 0
    async for job in _rows(client, request):
        looked += 1
        if not found and job.name == name and (array := job.array) is not None and array.states:
            return await _of_array(client, request, array)
        if found and (first is None or job.job < first):
            break
        if job.name == name:
            found.append(job.job)
            first = job.array.first if job.array is not None else None
        if looked == NAMES_AMONG:
            break
    return found


async def _matches(client: Client, request: schema.ListRequest, name: str) -> list[int]:
    """The jobs of a name among the NAMES_AMONG newest that a request lists."""
    found: list[int] = []
    looked = 0
    async for job in _rows(client, request):
        looked += 1
        if job.name == name and (array := job.array) is not None and array.states:
            found += await _of_array(client, request, array)
        elif job.name == name:
            found.append(job.job)
        if looked == NAMES_AMONG:
            break
    return found


async def _rows(client: Client, request: schema.ListRequest) -> AsyncIterator[schema.JobView]:
    """Yield the rows of a list with each array as one, or each job where none are known."""
    try:
        async for job in client.list_all(replace(request, arrays=True)):
            yield job
    except BadRequest:  # a scheduler of an older version
        async for job in client.list_all(request):
            yield job


async def _of_array(
    client: Client, request: schema.ListRequest, array: schema.ArrayView
) -> list[int]:
    """The jobs of an array in the states of a request, or all jobs of a large one."""
    last = array.first + array.size - 1
    if array.size > ROWS_MAX:
        return [*range(array.first, last + 1)]
    own = replace(request, select=f"{array.first}-{last}")
    return [job.job async for job in client.list_all(own)]


async def selections(
    client: Client, selector: Selector, words: str, states: Sequence[str]
) -> list[str]:
    """The selections to send for the verbs that the scheduler carries out on many jobs."""
    if selector.all or selector.last:
        return [words]
    if selector.ranges:
        return list(_joined(_parts(selector.ranges)))
    chosen = await numbers(client, selector, words, states)
    return list(_joined(_runs(chosen)))


def _runs(chosen: Iterable[int]) -> Iterator[str]:
    """The numbers with those that follow one another as ranges."""
    ordered = sorted(chosen)
    for at, number in enumerate(ordered):
        if not at or number > ordered[at - 1] + 1:
            first = number
        if number + 1 not in ordered[at + 1 : at + 2]:
            yield str(first) if first == number else f"{first}-{number}"


def _parts(ranges: Iterable[range]) -> Iterator[str]:
    """Each range as typed, since a number that is named by itself must exist."""
    for jobs in ranges:
        if jobs.step > 1:
            yield from map(str, jobs)
        else:
            yield f"{jobs[0]}-{jobs[-1]}" if len(jobs) > 1 else str(jobs[0])


def _joined(parts: Iterable[str]) -> Iterator[str]:
    whole = list(parts)
    for first in range(0, len(whole), PARTS_MAX):
        yield ",".join(whole[first : first + PARTS_MAX])
