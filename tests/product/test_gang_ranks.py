# SPDX-License-Identifier: Apache-2.0
"""A rank of a gang over two nodes keeps ranks of the other one waiting: it is named, and its device
is cordoned on its own node. Cards and NCCL are simulated (SIM), MPI is real."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from fakes.joined_node import JoinedNode
from fakes.servers import Servers, founded

from stoker.mesh.wire import schema
from stoker.probes.calls import site_report
from stoker.scheduler.nouns import ENDED
from tests.mesh.nats_server import NODES
from tests.product.test_gangs_on_nodes import Cards, cards  # noqa: F401  # fixture

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
]

REDUCE = "nccl.ncclAllReduce"
needs_mpi = pytest.mark.skipif(shutil.which("mpicc") is None, reason="Open MPI is not installed")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(
    tmp_path_factory: pytest.TempPathFactory,
    cards: dict[str, Cards],  # noqa: F811
) -> AsyncIterator[Servers]:
    """Two nodes with eight simulated cards each, whose jobs may cordon them."""
    environments = {name: each.environment for name, each in cards.items()}
    folder, config = tmp_path_factory.mktemp("pair"), "[node]\nrank_cordon = true\n"
    async with founded(folder, NODES[:2], environments, config=config) as made:
        yield made


@pytest.fixture(scope="module")
def ranks(public_folder: Path) -> str:
    built = public_folder / "ranks"
    source = Path(__file__).parent / "nccl/ranks.c"
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-o", built, source, "-ldl"], check=True)
    return str(built)


def watched(node: JoinedNode, call: str) -> Counter[int]:
    """Return the number of processes in which the sites of a call are attached, by task."""
    report, found = site_report.load(node.state.agent / site_report.FILE), Counter[int]()
    for each in report.states if report else ():
        found[each.job] += each.processes if each.id == call else 0
    return found


def watched_by_now(servers: Servers, call: str) -> set[int]:
    """Return the tasks that are watched: those of a job that has ended are for a moment more."""
    return {task for node in servers.nodes for task in watched(node, call)}


async def until_watched(servers: Servers, call: str, earlier: set[int], each: int) -> None:
    """Wait until so many processes of each node are watched that were not there earlier."""

    def new(node: JoinedNode) -> int:
        return sum(n for task, n in watched(node, call).items() if task not in earlier)

    await servers.until(lambda: [new(node) for node in servers.nodes] == [each, each])


async def until_troubled(servers: Servers, job: int) -> schema.JobView:
    view: schema.JobView | None = None
    try:
        async with asyncio.timeout(90):
            while True:
                view = await servers.persist("alice", "job", "get", job=job)
                assert view.state not in ENDED, view.reason
                if view.troubles:
                    return view
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"no trouble is told of {view}\n{servers.logs()}") from None


async def planted_ns(servers: Servers, job: int, rank: int) -> int:
    """Return the instant at which a rank began to keep the others waiting, by its own word."""
    logs: schema.LogsView = await servers.persist(
        "alice", "job", "logs", job=job, rank=rank, wait_s=10.0
    )
    word, number = logs.data.decode().split()
    assert word == "planted"
    return int(number)


async def gang(servers: Servers, ranks: str, id: Path, *words: str, **fields: Any) -> int:
    """Submit eight ranks on two nodes, which meet when the probes are on all of them."""
    go, earlier = id.with_suffix(".go"), watched_by_now(servers, REDUCE)
    job = await servers.submit(
        ranks, "--go", str(go), "--id", str(id), "--rounds", "4000", *words,
        nodes=2, tasks_per_node=4, gpu_milli=1000, trace="full", **fields,
    )  # fmt: skip
    try:
        await until_watched(servers, REDUCE, earlier, 4)
    finally:
        go.touch()
    return job


NAMED_NS = 5_000_000_000
"""A rank is named within this time, less the time in which whoever judges had no CPU."""


def named_in_time(trouble: schema.RankTroubleView, began_ns: int, *, frozen: bool) -> bool:
    """`frozen`: a node has frozen its tasks meanwhile, which then begin to wait anew."""
    began_ns = max(began_ns, trouble.since_ns) if frozen else began_ns
    return 0 < trouble.named_ns - began_ns <= NAMED_NS + trouble.lag_ns


async def test_a_slow_rank_of_two_nodes_is_named_and_its_device_cordoned(
    pair: Servers, ranks: str, public_folder: Path
) -> None:
    rule = {"rank_trouble": "cordon", "rank_patience_s": 12}
    freezes = pair.freezes()
    job = await gang(pair, ranks, public_folder / "slow", "--slow", "6:100:50", **rule)
    view = await until_troubled(pair, job)
    where = view.ranks[6]
    (trouble,) = view.troubles
    assert (trouble.kind, trouble.rank, trouble.task) == ("slow", 6, 6)
    assert (trouble.node, trouble.devices) == (where.node, (where.devices[0].id,))
    assert trouble.longer is not None and trouble.longer > 0.5, trouble
    frozen = pair.freezes() != freezes
    assert named_in_time(trouble, await planted_ns(pair, job, 6), frozen=frozen), trouble
    why = await pair.persist("alice", "job", "explain", job=job)
    assert [each.rank for each in why.troubles] == [6]
    ended = await pair.until_state(job, *ENDED)
    (late,) = trouble.devices
    began = f"rank 6 on node {where.node}: rank 6 on device {late}: rank 6 of 8: in "
    assert ended.reason.startswith(began)
    cordoned = []
    async with asyncio.timeout(60):
        while not cordoned:
            rows = (await pair.persist("alice", "device", "list")).devices
            cordoned = [row for row in rows if row.unavailable.startswith("sick: a rank on it ")]
            await asyncio.sleep(0.05)
    assert [(row.node, row.id) for row in cordoned] == [(where.node, late)]


async def test_a_rank_of_another_node_that_does_not_come_has_its_gang_begin_again(
    pair: Servers, ranks: str, public_folder: Path
) -> None:
    rule = {"rank_trouble": "restart", "rank_patience_s": 12, "retries": 1, "backoff_s": 1}
    words = ("--rounds", "60", "--absent", "1:20")
    freezes = pair.freezes()
    job = await gang(pair, ranks, public_folder / "hung", *words, **rule)
    view = await until_troubled(pair, job)
    (trouble,) = view.troubles
    where = view.ranks[1]
    assert (trouble.kind, trouble.rank, trouble.node) == ("hung", 1, where.node)
    assert trouble.text.startswith("ncclAllReduce #22: 7 ranks from 0 wait since ")
    assert trouble.text.endswith(" s for rank 1")
    frozen = pair.freezes() != freezes
    assert named_in_time(trouble, await planted_ns(pair, job, 1), frozen=frozen), trouble
    ended = await pair.until_state(job, *ENDED)
    assert (ended.state, ended.attempt) == ("succeeded", 2), ended.reason
    (before,) = ended.attempts
    assert before.reason.startswith(f"rank 1 on node {where.node}: rank 1 on device ")
    assert trouble.devices[0] not in {each.id for rank in ended.ranks for each in rank.devices}
    assert ended.troubles == ()


@pytest.fixture(scope="module")
def allreduce(public_folder: Path) -> str:
    """Ranks of MPI that sleep and add up a number, of which one sleeps longer from a round on."""
    program = public_folder / "late_rank"
    source = Path(__file__).parent / "late_rank.c"
    subprocess.run(["mpicc", "-O2", "-Wall", "-Werror", "-o", program, source], check=True)
    return str(program)


@needs_mpi
@pytest.mark.parametrize(("more", "of"), [((), "4"), (("split",), "ranks 1, 3")])
async def test_a_slow_rank_of_mpirun_is_named_with_the_task_that_it_is_in(
    pair: Servers, allreduce: str, public_folder: Path, more: tuple[str, ...], of: str
) -> None:
    """Two tasks of two cards (SIM) are four ranks of MPI; a split makes pairs over both nodes."""
    go, earlier = public_folder / f"mpi{len(more)}.go", watched_by_now(pair, "mpi.MPI_Allreduce")
    freezes = pair.freezes()
    job = await pair.submit(
        "mpirun", allreduce, str(go), "3", "50", *more,
        nodes=2, gpu_milli=2000, mpi=True, trace="full", rank_trouble="warn",
    )  # fmt: skip
    try:
        await until_watched(pair, "mpi.MPI_Allreduce", earlier, 2)
    finally:
        go.touch()
    view = await until_troubled(pair, job)
    (trouble,) = view.troubles
    assert (trouble.kind, trouble.rank, trouble.task) == ("slow", 3, 1)
    assert trouble.text.startswith(f"rank 3 of {of}: in ")
    assert trouble.node == view.ranks[1].node
    assert trouble.devices == tuple(each.id for each in view.ranks[1].devices)
    frozen = pair.freezes() != freezes
    assert named_in_time(trouble, await planted_ns(pair, job, 0), frozen=frozen), trouble
    await pair.persist("alice", "job", "cancel", select=str(job))
    await pair.until_state(job, *ENDED)
