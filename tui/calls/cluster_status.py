# SPDX-License-Identifier: Apache-2.0
"""The state of a cluster's servers, and which of them may be taken down now.

Each scheduler is asked for itself, since only its own answer shows that it is there and how far it
is. Owns the judgement, which is pure: a server may go if those that stay can decide and keep the
log without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from stoker.mesh.client.client import Client
from stoker.mesh.client.read_choice import ReadChoice
from stoker.mesh.wire import schema, subjects
from stoker.native.errors import StokerError

PATIENCE_S = 2.0
"""The longest wait for a scheduler; one that is there answers in milliseconds."""
BEHIND_MAX = 64
"""A scheduler or a copy of the log that lacks more entries is not in step. Fewer are on their way
while the servers are asked one beside the other."""


class ServerStatus(msgspec.Struct, frozen=True):
    """One server as it is now."""

    server: str
    """The name of its host; empty where the scheduler does not tell."""
    scheduler: str
    """Its scheduler, as `--at` takes it."""
    leads: bool
    index: int | None
    """The entry up to which its scheduler is; None if it does not answer."""
    why: str
    """The reason why it does not answer, or empty."""
    log: str
    """`leads`, `current`, `behind` or `away`: its copy of the log; `unknown` if no broker tells."""
    node: str
    """The state of its node, or `unknown`."""
    jobs: int | None
    """The number of jobs that are placed there."""
    may_go: bool
    """True if the host is there and may be taken down now."""
    because: str
    """The reason why it may not, or what its absence costs."""
    oldest: int | None = None
    """The oldest feature level that its scheduler supports, with `newest`; None if it does not
    answer."""
    newest: int | None = None
    version: str = ""
    """Its version of stoker; empty if it does not tell."""
    halted: str = ""
    """The reason why it takes part in nothing although it answers, or empty."""


class JobsLeft(msgspec.Struct, frozen=True):
    """The jobs that a drained node still has."""

    jobs: int
    moving: int | None
    """Those that its drain moves to other nodes; None: it moves none."""


class ClusterStatus(msgspec.Struct, frozen=True):
    """All servers and nodes of a cluster."""

    cluster: str
    index: int
    term: int
    leader: str
    """The server whose scheduler leads; empty if none does."""
    log_leader: str
    """The server through whose broker entries go; empty if none does or no broker tells."""
    servers: tuple[ServerStatus, ...]
    nodes: dict[str, str] | None
    """The state of each node; None if nobody leads, who alone knows them."""
    level: int = 1
    """The feature level of the cluster."""
    next_level: int | None = None
    """The newest level that any server supports, if that is higher; else None."""
    lags: dict[str, str] = {}
    """The reason of each server that keeps the cluster from the next level."""
    drained: dict[str, str] = {}
    """The reason of each node that takes no new jobs."""
    left: dict[str, JobsLeft] = {}
    """The jobs that each of these nodes still has."""


class SchedulerAnswers(NamedTuple):
    """The answers of the schedulers, and of the leader about nodes."""

    roster: tuple[schema.SchedulerView, ...]
    views: dict[int, schema.ClusterView | str]
    """The answer of each scheduler, by number, or the reason why there is none."""
    nodes: tuple[schema.NodeView, ...] | None


async def status(state: str | None) -> ClusterStatus:
    """Ask all schedulers of the cluster, and judge."""
    return judge(await _all_answers(state))


async def _all_answers(state: str | None) -> SchedulerAnswers:
    anyone = ReadChoice(subjects.ANY, stale=True)
    async with Client.open(state, reads=anyone) as client:
        roster = (await client.cluster()).schedulers
        client.patience_s = PATIENCE_S
        views = asyncio.gather(*(_view(state, each.number) for each in roster))
        nodes, found = await asyncio.gather(_nodes(client), views)
    numbers = (each.number for each in roster)
    return SchedulerAnswers(roster, dict(zip(numbers, found, strict=True)), nodes)


async def _nodes(client: Client) -> tuple[schema.NodeView, ...] | None:
    try:
        return (await client.nodes()).nodes
    except StokerError:
        return None


async def _view(state: str | None, number: int) -> schema.ClusterView | str:
    reads = ReadChoice(subjects.at(number), stale=True)
    try:
        async with Client.open(state, patience_s=PATIENCE_S, reads=reads) as client:
            return await client.cluster()
    except StokerError as error:
        return error.message


def judge(answers: SchedulerAnswers) -> ClusterStatus:
    """Return what the answers come to."""
    views = {
        number: view
        for number, view in answers.views.items()
        if isinstance(view, schema.ClusterView)
    }
    newest = max(views.values(), key=_place)
    leader = _leader(views)
    log = next((view.log for _, view in sorted(views.items()) if view.log is not None), None)
    found = (_row(each, answers, leader, log) for each in answers.roster)
    rows = tuple(_left_behind(row, newest.level) for row in found)
    servers = tuple(_judged(row, rows, _place(newest)[1], log) for row in rows)
    names = {row.scheduler: row.server for row in rows}
    drained = [row for row in answers.nodes or () if row.drained]
    following = next_level(rows, newest.level)
    return ClusterStatus(
        cluster=newest.cluster,
        index=_place(newest)[1],
        term=newest.term,
        leader=names.get(subjects.at(leader), "") if leader else "",
        log_leader=log.leader if log is not None else "",
        servers=servers,
        nodes=None if answers.nodes is None else {row.node: row.state for row in answers.nodes},
        level=newest.level,
        next_level=following,
        lags=lags(rows, following) if following else {},
        drained={row.node: row.drained for row in drained},
        left={row.node: JobsLeft(row.jobs, row.moving) for row in drained},
    )


def _place(view: schema.ClusterView) -> tuple[int, int]:
    return view.term, view.position.index if view.position is not None else 0


def _leader(views: dict[int, schema.ClusterView]) -> int:
    """Return the scheduler that says of itself that it leads, in the newest term; 0 if none."""
    own = {
        number: view.term
        for number, view in views.items()
        if any(each.number == number and each.leads for each in view.schedulers)
    }
    newest = max(view.term for view in views.values())
    return next((number for number, term in own.items() if term == newest), 0)


def _row(
    each: schema.SchedulerView, answers: SchedulerAnswers, leader: int, log: schema.LogView | None
) -> ServerStatus:
    view = answers.views[each.number]
    there = isinstance(view, schema.ClusterView)
    node = next((row for row in answers.nodes or () if row.node == each.server), None)
    return ServerStatus(
        server=each.server,
        scheduler=subjects.at(each.number),
        leads=each.number == leader,
        index=_place(view)[1] if isinstance(view, schema.ClusterView) else None,
        why="" if there else str(view),
        log=_copy(each.server, log),
        node=node.state if node is not None else "unknown",
        jobs=node.jobs if node is not None else None,
        may_go=False,
        because="",
        **_build(view),
    )


def _build(view: schema.ClusterView | str) -> dict[str, Any]:
    """Return what a scheduler tells of its build."""
    if isinstance(view, str):
        return {}
    return {"oldest": view.oldest, "newest": view.newest, "version": view.version}


def _left_behind(row: ServerStatus, level: int) -> ServerStatus:
    """Return a server, halted if its scheduler does not support the level of the cluster."""
    if row.newest is None or row.newest >= level:
        return row
    lacks = f"it supports no feature level above {row.newest}, and the cluster has {level}"
    return msgspec.structs.replace(row, halted=f"{lacks}: run a newer stoker there")


def next_level(rows: Sequence[ServerStatus], level: int) -> int | None:
    """Return the newest feature level that any server supports; None unless it is higher."""
    known = [row.newest for row in rows if row.newest is not None]
    found = max(known, default=level)
    return found if found > level else None


def lags(rows: Sequence[ServerStatus], level: int) -> dict[str, str]:
    """Return the servers that keep the cluster from this level, with the reason of each."""
    found = {}
    for row in rows:
        if row.newest is None:
            found[row.server or row.scheduler] = "does not answer"
        elif row.newest < level:
            found[row.server or row.scheduler] = f"supports no level above {row.newest}"
    return found


def _copy(server: str, log: schema.LogView | None) -> str:
    """Return the state of a server's copy of the log in one word."""
    found = next((each for each in log.copies if each.server == server), None) if log else None
    if log is None or found is None:
        return "unknown"
    if log.leader == server:
        return "leads"
    if found.behind > BEHIND_MAX:
        return "behind"
    return "current" if found.current else "away"


def _judged(
    row: ServerStatus, rows: Sequence[ServerStatus], newest: int, log: schema.LogView | None
) -> ServerStatus:
    """Return a server with whether it may go: a majority of all must stay without it."""
    if row.index is None:
        why = f"{row.why}; if its host is there, `stoker doctor` on it tells more"
        return msgspec.structs.replace(row, because=why)
    others = [each for each in rows if each is not row]
    missing = [trouble for each in others if (trouble := _trouble(each, newest))]
    stay, majority = len(others) - len(missing), len(rows) // 2 + 1
    if len(rows) == 1:
        why = "it is the only server: while it is away nothing is decided"
    elif stay < majority:
        why = f"{stay} of {len(rows)} would stay, {majority} must"
        why = f"{'; '.join(missing)}: {why}" if missing else why
    elif lack := _copies_lack(row, log):
        why = lack
    elif not any(each.leads for each in rows):
        why = "no scheduler leads at this moment"
    else:
        return msgspec.structs.replace(row, may_go=True, because=_cost(row))
    return msgspec.structs.replace(row, because=why)


def _copies_lack(row: ServerStatus, log: schema.LogView | None) -> str:
    """Return why the log could take no entry without a host, or an empty string. It may have a copy
    at a server that does not count yet."""
    copies = log.copies if log is not None else ()
    stay = sum(each.current for each in copies if each.server != row.server)
    majority = len(copies) // 2 + 1
    if len(copies) < 2 or stay >= majority:
        return ""
    return f"{stay} of the log's {len(copies)} copies would stay, {majority} must"


def _trouble(row: ServerStatus, newest: int) -> str:
    """Return why a server cannot be relied on, or an empty string."""
    if row.index is None:
        return f"{row.server} does not answer"
    if row.halted:
        return f"{row.server} takes part in nothing"
    if row.index + BEHIND_MAX < newest:
        return f"{row.server} lacks {newest - row.index} entries"
    if row.log in ("behind", "away", "unknown"):
        return f"the log's copy on {row.server} is {row.log}"
    return ""


def _cost(row: ServerStatus) -> str:
    """Return what the absence of a server costs."""
    costs = []
    if row.halted:
        costs.append(f"it takes part in nothing: {row.halted}")
    if row.jobs:
        jobs = "1 job" if row.jobs == 1 else f"{row.jobs} jobs"
        costs.append(f"it has {jobs}: drain its node first")
    if row.leads:
        costs.append("another one leads then")
    if row.log == "leads":
        costs.append("the log elects another leader, while nothing new starts")
    return "; ".join(costs)
