# SPDX-License-Identifier: Apache-2.0
"""The words that a shell offers at TAB: jobs, nodes, devices, queues and contexts that exist.

Invariants: an offer is made within LIMIT_S or not at all, nothing else is ever printed, and no text
of a job can break a shell's line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from stoker.tui.render import text

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from stoker.mesh.client.client import Client

LIMIT_S = 0.5
"""A shell waits no longer than this for a node."""
JOBS_MAX = 64
"""The most jobs that are offered, the newest first."""
SELECTS = (("last", "your newest job"), ("@me", "all of yours"), ("all", "everybody's, for admins"))
LIVE = ("pending", "starting", "running", "stopping")
OVER = ("succeeded", "failed", "cancelled", "timeout", "lost")
_WORD = re.compile(r"[A-Za-z0-9_.@-]+")

Offer = tuple[str, str]
"""A word, and what it means."""


def jobs(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offer jobs: numbers, names, and the words that select several."""
    return _of_jobs(context, begun, ())


def live_jobs(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Offer jobs that are not over."""
    return _of_jobs(context, begun, LIVE)


def ended_jobs(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Offer jobs that are over."""
    return _of_jobs(context, begun, OVER)


def nodes(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offer the names of nodes."""

    async def read(client: Client) -> list[Offer]:
        return [(node.node, node.state) for node in (await client.nodes()).nodes]

    return offered(_answers(context, read), begun)


def devices(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offer the ids of devices."""

    async def read(client: Client) -> list[Offer]:
        found = (await client.devices()).devices
        return [(each.id, f"{each.model} on {each.node}") for each in found]

    return offered(_answers(context, read), begun)


def queues(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offer the names of queues."""

    async def read(client: Client) -> list[Offer]:
        return [(each.queue, f"order {each.order}") for each in (await client.queues()).queues]

    return offered(_answers(context, read), begun)


def contexts(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Offer the contexts that this user has saved."""
    from stoker.mesh.connection import saved_contexts

    try:
        found = saved_contexts.names(os.environ)
    except OSError:
        return []
    return offered([(name, "") for name in found], begun)


def offered(offers: Iterable[Offer], begun: str) -> list[CompletionItem]:
    """Return those that continue what is begun, each once, without what a shell would take for
    something else."""
    from click.shell_completion import CompletionItem

    kept = {word: help for word, help in offers if word.startswith(begun) and _WORD.fullmatch(word)}
    return [CompletionItem(word, help=text.clean(help) or None) for word, help in kept.items()]


def _of_jobs(context: click.Context, begun: str, states: Sequence[str]) -> list[CompletionItem]:
    """Offer jobs for the last part of a list such as `1,4-6,`."""

    async def read(client: Client) -> list[Offer]:
        from stoker.mesh.wire import schema

        request = schema.ListRequest(states=tuple(states), limit=JOBS_MAX)  # type: ignore[arg-type]
        found = (await client.list(request)).jobs
        numbers = [(f"{letter}{each.job}", f"{each.state} {each.name}") for each in found]
        names = [(each.name, f"the newest is {each.job}") for each in found if each.name]
        return [*numbers, *names, *SELECTS]

    head, comma, last = begun.rpartition(",")
    letter = "j" if re.fullmatch(r"j\d*", last) else ""
    items = offered(_answers(context, read), last)
    if comma:
        for item in items:
            item.value = f"{head},{item.value}"
    return items


def _answers(
    context: click.Context, read: Callable[[Client], Awaitable[list[Offer]]]
) -> list[Offer]:
    """Return what the node that is meant says; nothing if it does not answer in time."""
    import asyncio

    try:
        return asyncio.run(_read(context.params.get("state"), read))
    except Exception:  # whatever it is, in the middle of a line nobody can do anything about it
        return []


async def _read(state: str | None, read: Callable[[Client], Awaitable[list[Offer]]]) -> list[Offer]:
    import asyncio

    from stoker.mesh.client.client import Client

    async with asyncio.timeout(LIMIT_S), Client.open(state, patience_s=0.0) as client:
        return await read(client)
