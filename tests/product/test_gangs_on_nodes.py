# SPDX-License-Identifier: Apache-2.0
"""Gangs over several nodes, each with an agent, a spawner and simulated cards (SIM) of its own, all
on one machine: begun together, ended together, tried again on other devices; leaders and nodes die
while the ranks wait for one another."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from fakes.servers import Servers, founded

from stoker.mesh.wire import schema
from stoker.native import _sim
from stoker.native.errors import BadRequest, NotFound
from stoker.probes.simdriver import libraries, profiles
from stoker.scheduler.nouns import ENDED
from tests.mesh.nats_server import NODES

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
]

BEGIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct timespec now;
    char text[32];

    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof text, "%lld", now.tv_sec * 1000000000LL + now.tv_nsec);
    setenv("BEGAN_NS", text, 1);
    return argc < 2 || execvp(argv[1], argv + 1);
}
"""
"""Becomes the program that its arguments name, and tells it the time of its own beginning: an
interpreter takes longer to start than a gang."""
STAMP = (
    "import os, time;"
    " print(os.environ['BEGAN_NS'], os.getpid(), *map(os.environ.get, {}), flush=True)"
)
NAMES = ("STOKER_ATTEMPT", "RANK", "LOCAL_RANK", "STOKER_NODE", "MASTER_ADDR", "MASTER_PORT")
WORKER = STAMP.format(NAMES) + "; time.sleep(600)"
PROFILE = "8xH200"
needs_mpi = pytest.mark.skipif(shutil.which("mpicc") is None, reason="Open MPI is not installed")


class Cards:
    """The simulated cards of one node, by the ids under which stoker knows them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.sim: _sim.Node = profiles.node(PROFILE, folder / "node", seed=seed)
        models = [self.sim.truth(i)["model"] for i in range(self.sim.describe()["cards"])]
        self.ids = [str(model["uuid"]) for model in models]
        self.environment = libraries.environment(folder / "node", {"nvidia"}, {})


@pytest.fixture(scope="module")
def cards() -> Iterator[dict[str, Cards]]:
    folders = [Path(tempfile.mkdtemp(prefix="stoker-sim-", dir="/tmp")) for _ in range(2)]
    for folder in folders:
        folder.chmod(0o755)  # jobs of other users map the node as well
    try:
        yield {
            name: Cards(folder, seed)
            for seed, (name, folder) in enumerate(zip(NODES, folders, strict=False), 1)
        }
    finally:
        for folder in folders:
            shutil.rmtree(folder)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(
    tmp_path_factory: pytest.TempPathFactory, cards: dict[str, Cards]
) -> AsyncIterator[Servers]:
    """Two nodes with eight simulated cards each, and three schedulers."""
    environments = {name: each.environment for name, each in cards.items()}
    async with founded(tmp_path_factory.mktemp("pair"), NODES[:2], environments) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def three(tmp_path: Path) -> AsyncIterator[Servers]:
    """Three nodes, each beside a broker and a scheduler."""
    async with founded(tmp_path, NODES) as made:
        yield made


async def lines(servers: Servers, job: int, ranks: int, attempt: int = 0) -> list[list[str]]:
    """Return the words of the first line that each rank wrote."""
    found = []
    for rank in range(ranks):
        data = b""
        while b"\n" not in data:
            view: schema.LogsView = await servers.persist(
                "alice", "job", "logs", job=job, rank=rank, attempt=attempt, wait_s=2.0
            )
            data = view.data
        found.append(data.decode().splitlines()[0].split())
    return found


async def until_attempt(servers: Servers, job: int, attempt: int) -> schema.JobView:
    async with asyncio.timeout(60):
        while True:
            view = await servers.until_state(job, "running", "starting", "pending", "stopping")
            if view.attempt == attempt and view.state == "running":
                return view
            await asyncio.sleep(0.05)


def lives(pid: str) -> bool:
    return Path(f"/proc/{pid}").exists()


def devices(view: schema.JobView) -> set[tuple[str, str]]:
    return {(rank.node, device.id) for rank in view.ranks for device in rank.devices}


@pytest.fixture(scope="module")
def begin(public_folder: Path) -> str:
    program = public_folder / "begin"
    compile_ = ("cc", "-O1", "-Wall", "-Werror", "-x", "c", "-o", str(program), "-")
    subprocess.run(compile_, input=BEGIN.encode(), check=True)
    return str(program)


async def test_eight_ranks_begin_together_end_together_and_go_on_elsewhere(
    pair: Servers, cards: dict[str, Cards], begin: str
) -> None:
    job = await pair.submit(
        begin, "python3", "-c", WORKER,
        nodes=2, tasks_per_node=4, gpu_milli=1000, retries=1, trace="off",
    )  # fmt: skip
    first = await pair.until_state(job, "running")
    begun = await lines(pair, job, 8)
    rows = [" ".join(row[2:6]) for row in begun]
    assert sorted(first.nodes) == list(NODES[:2])
    assert rows == [f"1 {rank} {rank % 4} {first.nodes[rank // 4]}" for rank in range(8)]
    assert len({tuple(row[6:]) for row in begun}) == 1 and begun[0][6] == "127.0.0.1"
    assert len(devices(first)) == 8
    stamps = [int(row[0]) for row in begun]
    print(f"8 ranks on 2 nodes began within {(max(stamps) - min(stamps)) / 1e6:.1f} ms")

    sick = next(rank for rank in first.ranks if rank.rank == 5)
    place = cards[sick.node].ids.index(sick.devices[0].id)
    cards[sick.node].sim.inject("xid", place, value=48)
    second = await until_attempt(pair, job, 2)
    assert not [row[1] for row in begun if lives(row[1])], "all ranks of the first attempt ended"
    (before,) = second.attempts
    assert before.reason.startswith(f"rank 5 on node {sick.node}: device ")
    assert "Xid 48" in before.reason
    assert (sick.node, sick.devices[0].id) not in devices(second)
    again = await lines(pair, job, 8, attempt=2)
    assert [row[2] for row in again] == ["2"] * 8 and again[0][7] != begun[0][7]

    os.kill(int(again[2][1]), signal.SIGKILL)
    ended = await pair.until_state(job, *ENDED)
    assert ended.reason == f"rank 2 on node {again[2][5]}: ended by signal 9"
    assert not [row[1] for row in again if lives(row[1])]
    assert {rank.state for rank in ended.ranks} == {"cancelled", "failed"}


@pytest.fixture(scope="module")
def rendezvous(public_folder: Path) -> str:
    """A worker that needs nothing but the variables of torch's env:// rendezvous."""
    return shutil.copy(Path(__file__).parent / "rendezvous.py", public_folder)


@pytest.mark.parametrize(
    ("words", "shape"),
    [((), {"tasks_per_node": 2}), (("2",), {})],
    ids=["a plain script in each task", "a launcher on each node, as torchrun is"],
)
async def test_workers_on_two_nodes_meet_by_their_environment(
    pair: Servers, rendezvous: str, words: tuple[str, ...], shape: dict[str, int]
) -> None:
    job = await pair.submit("/usr/bin/python3", rendezvous, *words, nodes=2, **shape, trace="off")
    ended = await pair.until_state(job, *ENDED)
    assert ended.state == "succeeded", await said(pair, job)
    rows = []
    for rank in range(len(ended.ranks)):
        logs = await pair.persist("alice", "job", "logs", job=job, rank=rank)
        rows += logs.data.decode().splitlines()
    first, second = ended.nodes
    assert sorted(rows) == [
        f"0 4 0 {first} 1111", f"1 4 1 {first} 1111", f"2 4 0 {second} 1111", f"3 4 1 {second} 1111"
    ]  # fmt: skip


@pytest.fixture(scope="module")
def allreduce(public_folder: Path) -> str:
    """An MPI program whose ranks check a sum over all of them."""
    program = public_folder / "allreduce"
    source = Path(__file__).parent / "allreduce.c"
    compile_ = ("mpicc", "-O2", "-Wall", "-Werror", "-o", str(program), str(source))
    subprocess.run(compile_, check=True)
    return str(program)


async def mpi_lines(servers: Servers, job: int, ranks: int) -> list[list[str]]:
    """Wait until each rank of the MPI program has said where it is; return that by rank."""
    async with asyncio.timeout(60):
        while True:
            logs: schema.LogsView = await servers.persist("alice", "job", "logs", job=job, rank=0)
            rows = [line.split() for line in logs.data.decode().splitlines()]
            if len(rows) == ranks:
                return sorted(rows, key=lambda row: int(row[0]))
            view = await servers.persist("alice", "job", "get", job=job)
            assert view.state not in ENDED or view.state == "succeeded", await said(servers, job)
            await asyncio.sleep(0.05)


async def said(servers: Servers, job: int) -> str:
    """Return how a job ended and what its ranks wrote, to explain a test that fails."""
    view: schema.JobView = await servers.persist("alice", "job", "get", job=job)
    texts = [view.reason]
    for rank in range(len(view.ranks)):
        logs: schema.LogsView = await servers.persist(
            "alice", "job", "logs", job=job, rank=rank, stream="err"
        )
        texts.append(f"{rank}: {logs.data.decode()}")
    return "\n".join(texts)


@needs_mpi
async def test_mpirun_starts_its_ranks_in_the_tasks_of_the_gang(
    pair: Servers, allreduce: str
) -> None:
    """Four tasks of two GPUs (SIM) on two nodes are eight ranks of one allreduce."""
    job = await pair.submit(
        "mpirun", allreduce, nodes=2, tasks_per_node=2, gpu_milli=2000, mpi=True, trace="off"
    )
    ended = await pair.until_state(job, *ENDED)
    assert ended.state == "succeeded", await said(pair, job)
    rows = await mpi_lines(pair, job, 8)
    assert [row[:3] for row in rows] == [[str(rank), "8", str(999 * 36)] for rank in range(8)]
    assert [row[4] for row in rows] == [str(rank // 2) for rank in range(8)]
    assert [row[5] for row in rows] == [ended.nodes[rank // 4] for rank in range(8)]
    assert [rank.exit_code for rank in ended.ranks] == [0] * 4
    cgroups = [row[6] for row in rows]
    assert cgroups[::2] == cgroups[1::2] and len(set(cgroups)) == 4, "each in that of its task"


@needs_mpi
async def test_mpi_ranks_end_with_their_gang(pair: Servers, allreduce: str) -> None:
    argv = ("mpirun", allreduce, "stay")
    job = await pair.submit(*argv, nodes=2, cpu_milli=1000, mpi=True, retries=1, trace="off")
    first = await mpi_lines(pair, job, 2)
    assert all(lives(row[3]) for row in first)
    os.kill(int(first[1][3]), signal.SIGKILL)
    second = await until_attempt(pair, job, 2)
    (before,) = second.attempts
    assert before.reason.startswith(f"rank 0 on node {before.node}: "), "that of mpirun"
    assert before.exit_code == 128 + signal.SIGKILL, "as mpirun says of the process"
    again = await mpi_lines(pair, job, 2)
    assert {row[3] for row in again}.isdisjoint(row[3] for row in first)
    await pair.persist("alice", "job", "cancel", select=str(job))
    assert (await pair.until_state(job, *ENDED)).state == "cancelled"
    assert not [row[3] for row in (*first, *again) if lives(row[3])]


async def test_a_leader_dies_while_a_gang_gathers(three: Servers) -> None:
    """One node is late: the ranks of the other wait, whoever leads, and all run as one attempt."""
    late = three.nodes[1]
    late.processes["agent"].send_signal(signal.SIGSTOP)
    job = await three.submit("sh", "-c", "echo $RANK", nodes=3, name="gathers")
    view = await three.persist("alice", "job", "get", job=job)
    assert (view.state, len(view.ranks)) == ("starting", 3)
    leader = three.leader()
    leader.kill()
    three.server = three.servers_from(leader.server)[1]
    await three.until_another_leads(leader)
    late.processes["agent"].send_signal(signal.SIGCONT)
    ended = await three.until_state(job, *ENDED)
    assert (ended.state, ended.attempt) == ("succeeded", 1)
    assert [row[0] for row in await lines(three, job, 3)] == ["0", "1", "2"]


@pytest.mark.soak
async def test_a_node_that_dies_while_a_gang_gathers_takes_the_attempt_with_it(
    three: Servers,
) -> None:
    """It is given up, no rank of that attempt has run, and the next one begins when it is back."""
    lost = three.nodes[2]
    lost.processes["agent"].send_signal(signal.SIGSTOP)
    says = 'echo "$STOKER_ATTEMPT $RANK"; sleep 600'
    job = await three.submit("sh", "-c", says, nodes=3, restart="on-node-loss", name="loses")
    waits = await three.until_state(job, "starting", "stopping")
    assert (len(waits.ranks), waits.attempt) == (3, 1)
    async with asyncio.timeout(60):
        while True:
            waits = await three.persist("alice", "job", "get", job=job)
            if waits.state == "pending":
                break
            await asyncio.sleep(0.05)
    (before,) = waits.attempts
    assert before.state == "lost" and f"on node {lost.name})" in before.reason
    assert before.started_ns is None

    lost.processes["agent"].send_signal(signal.SIGCONT)
    await until_attempt(three, job, 2)
    assert await lines(three, job, 3) == [["2", str(rank)] for rank in range(3)]
    for rank in range(3):
        with contextlib.suppress(NotFound):  # nothing of it was ever there
            old = await three.persist("alice", "job", "logs", job=job, rank=rank, attempt=1)
            assert old.data == b""
    await three.persist("alice", "job", "cancel", select=str(job))
    assert (await three.until_state(job, *ENDED)).state == "cancelled"


@pytest_asyncio.fixture(loop_scope="module")
async def racks(tmp_path: Path) -> AsyncIterator[Servers]:
    """Three nodes, the last two of which are in one rack."""
    labels = {name: (f"rack={rack}",) for name, rack in zip(NODES, "abb", strict=True)}
    async with founded(tmp_path, NODES, labels=labels) as made:
        yield made


async def test_a_gang_stays_within_a_rack_by_the_labels_of_its_nodes(racks: Servers) -> None:
    """A gang that no rack can hold is refused; once another node is in the rack it fits."""
    job = await racks.submit("sh", "-c", "echo $RANK $STOKER_NODE", nodes=2, within="rack")
    assert (await racks.until_state(job, *ENDED)).state == "succeeded"
    ranks, nodes = zip(*await lines(racks, job, 2), strict=True)
    assert (ranks, {*nodes}) == (("0", "1"), {"node2", "node3"})

    with pytest.raises(BadRequest, match="within one rack, the largest can hold 2"):
        await racks.submit("true", nodes=3, within="rack")
    with pytest.raises(BadRequest, match="there is no level 'rak'"):
        await racks.submit("true", nodes=2, within="rak")

    either = await racks.submit("sleep", "600", nodes=3, prefer_within=("rack",))
    places = [rank.node for rank in (await racks.until_state(either, "running")).ranks]
    assert {*places} == {*NODES}
    assert places[1] != "node1", "the ranks of one rack are adjacent"
    told = await racks.persist("alice", "job", "explain", job=either)
    assert "not nodes of one rack" in " ".join(reason.text for reason in told.reasons)
    await racks.persist("alice", "job", "cancel", select=str(either))
    await racks.until_state(either, *ENDED)

    await racks.persist("admin", "node", "label", node="node1", labels=("rack=b",))
    wide = await racks.submit("sh", "-c", "echo $STOKER_NODE", nodes=3, within="rack")
    assert (await racks.until_state(wide, *ENDED)).state == "succeeded"
    assert {row for (row,) in await lines(racks, wide, 3)} == {*NODES}
