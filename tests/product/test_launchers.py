# SPDX-License-Identifier: Apache-2.0
"""Gangs over two nodes under launchers that the distribution does not have: torchrun, and mpirun of
Open MPI 5. Both come from packages that whoever runs this has installed for all users:

    STOKER_TEST_TORCHRUN    the path of a torchrun
    STOKER_TEST_OPEN_MPI    the folder in which mpirun and mpicc of Open MPI are
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from fakes.servers import Servers, founded

from stoker.scheduler.nouns import ENDED
from tests.mesh.nats_server import NODES
from tests.product.test_gang_ranks import until_troubled, until_watched, watched_by_now
from tests.product.test_gangs_on_nodes import mpi_lines, said

TORCHRUN = os.environ.get("STOKER_TEST_TORCHRUN", "")
OPEN_MPI = os.environ.get("STOKER_TEST_OPEN_MPI", "")
needs_torch = pytest.mark.skipif(not TORCHRUN, reason="STOKER_TEST_TORCHRUN names no torchrun")
needs_mpi = pytest.mark.skipif(not OPEN_MPI, reason="STOKER_TEST_OPEN_MPI names no Open MPI")
pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.soak,
    pytest.mark.asyncio(loop_scope="module"),
]

STATIC = "--node-rank $NODE_RANK --master-addr $MASTER_ADDR --master-port $MASTER_PORT"
C10D = "--rdzv-backend c10d --rdzv-id $STOKER_JOB_ID --rdzv-endpoint $MASTER_ADDR:$MASTER_PORT"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Servers]:
    async with founded(tmp_path_factory.mktemp("pair"), NODES[:2]) as made:
        yield made


async def sums(servers: Servers, job: int) -> list[str]:
    """Return the lines that the ranks of a job wrote, in their order."""
    ended = await servers.until_state(job, *ENDED)
    assert ended.state == "succeeded", await said(servers, job)
    rows: list[str] = []
    for task in range(max(1, len(ended.ranks))):
        logs = await servers.persist("alice", "job", "logs", job=job, rank=task)
        rows += logs.data.decode().splitlines()
    return sorted(rows)


@pytest.fixture(scope="module")
def worker(public_folder: Path) -> str:
    return shutil.copy(Path(__file__).parent / "torch_sum.py", public_folder)


@needs_torch
@pytest.mark.parametrize("meeting", [STATIC, C10D], ids=["static", "c10d"])
async def test_torchrun_on_each_of_two_nodes_is_one_group(
    pair: Servers, worker: str, meeting: str
) -> None:
    line = f"{TORCHRUN} --nnodes $STOKER_NODE_COUNT --nproc-per-node 2 {meeting} {worker}"
    rows = await sums(pair, await pair.submit("sh", "-c", line, nodes=2, trace="full"))
    assert [row.split()[:3] for row in rows] == [[str(r), "4", str(r % 2)] for r in range(4)]
    assert {row.split()[4] for row in rows} == {"1111"}
    places = [row.split()[3] for row in rows]
    assert places[0] == places[1] != places[2] == places[3]


@needs_torch
async def test_torchrun_alone_and_plain_workers_need_no_more(pair: Servers, worker: str) -> None:
    """Alone it starts two workers; without it each task is a worker, which its first line names."""
    argv = (TORCHRUN, "--standalone", "--nproc-per-node", "2", worker)
    alone = await sums(pair, await pair.submit(*argv, trace="full"))
    assert [row.split()[:3] for row in alone] == [["0", "2", "0"], ["1", "2", "1"]]
    python = Path(TORCHRUN).read_text().splitlines()[0].removeprefix("#!")
    job = await pair.submit(python, worker, nodes=2, tasks_per_node=2, trace="full")
    assert [row.split()[4] for row in await sums(pair, job)] == ["1111"] * 4


def built(folder: Path, source: str) -> str:
    program = folder / f"own_{Path(source).stem}"
    argv = (f"{OPEN_MPI}/mpicc", "-O2", "-Wall", "-Werror", "-o", program)
    subprocess.run((*argv, Path(__file__).parent / source), check=True)
    return str(program)


@needs_mpi
@pytest.mark.parametrize("shape", [{}, {"tasks_per_node": 2}], ids=["a task a node", "two"])
async def test_mpirun_starts_its_ranks_in_the_tasks_of_the_gang(
    pair: Servers, public_folder: Path, shape: dict[str, int]
) -> None:
    argv = (f"{OPEN_MPI}/mpirun", built(public_folder, "allreduce.c"))
    tasks = 2 * shape.get("tasks_per_node", 1)
    cpus = 4 // tasks * 1000
    job = await pair.submit(*argv, nodes=2, cpu_milli=cpus, mpi=True, trace="off", **shape)
    ended = await pair.until_state(job, *ENDED)
    assert ended.state == "succeeded", await said(pair, job)
    rows = await mpi_lines(pair, job, 4)
    assert [row[:3] for row in rows] == [[str(rank), "4", str(999 * 10)] for rank in range(4)]
    assert [row[4] for row in rows] == [str(rank * tasks // 4) for rank in range(4)]


@needs_mpi
async def test_the_late_rank_of_another_node_is_named(pair: Servers, public_folder: Path) -> None:
    go, earlier = public_folder / "own.go", watched_by_now(pair, "mpi.MPI_Allreduce")
    argv = (f"{OPEN_MPI}/mpirun", built(public_folder, "late_rank.c"), str(go), "3", "50")
    job = await pair.submit(*argv, nodes=2, cpu_milli=2000, mpi=True, trace="full")
    try:
        await until_watched(pair, "mpi.MPI_Allreduce", earlier, 2)
    finally:
        go.touch()
    (trouble,) = (await until_troubled(pair, job)).troubles
    assert (trouble.kind, trouble.rank, trouble.task) == ("slow", 3, 1)
    assert trouble.text.startswith("rank 3 of 4: in "), trouble
    await pair.persist("alice", "job", "cancel", select=str(job))
    await pair.until_state(job, *ENDED)
