# SPDX-License-Identifier: Apache-2.0
"""The variables by which a task of a gang knows its rank and finds the others.

Pure. Three vocabularies say the same: STOKER_*, that of torchrun, and the ranks under the names by
which Open MPI's launcher gives them, which scripts read. No variable of Slurm or of PMI is set:
programs that find one look for a server of that name, and there is none.
"""

from __future__ import annotations

from stoker.scheduler.nouns import Gang, StartJob


def variables(start: StartJob) -> dict[str, str]:
    """Return the variables of one task; none for a job of one task."""
    gang = start.gang
    if gang is None:
        return {}
    ranks = _ranks(gang, start.task)
    numbers = {name: str(ranks[of]) for names, of in _NAMES.items() for name in names.split()}
    return {
        **numbers,
        "STOKER_NODES": " ".join(gang.nodes),
        "STOKER_MASTER_ADDR": gang.master_addr,
        "STOKER_MASTER_PORT": str(gang.master_port),
        "MASTER_ADDR": gang.master_addr,
        "MASTER_PORT": str(gang.master_port),
    }


_NAMES = {
    "STOKER_RANK RANK OMPI_COMM_WORLD_RANK": "rank",
    "STOKER_TASKS WORLD_SIZE OMPI_COMM_WORLD_SIZE": "tasks",
    "STOKER_LOCAL_RANK LOCAL_RANK OMPI_COMM_WORLD_LOCAL_RANK": "local_rank",
    "STOKER_LOCAL_TASKS LOCAL_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_SIZE": "local_tasks",
    "STOKER_NODE_RANK NODE_RANK GROUP_RANK": "node_rank",
    "STOKER_NODE_COUNT GROUP_WORLD_SIZE": "nodes",
}
"""The names of each number. OMPI_COMM_WORLD_NODE_RANK is not among them, since it means the rank
among all programs of the node."""


def _ranks(gang: Gang, rank: int) -> dict[str, int]:
    """Return the numbers of one rank, by the words of `_NAMES`."""
    node = gang.places[rank]
    here = [other for other, place in enumerate(gang.places) if place == node]
    return {
        "rank": rank,
        "tasks": len(gang.places),
        "local_rank": here.index(rank),
        "local_tasks": len(here),
        "node_rank": node,
        "nodes": len(gang.nodes),
    }
