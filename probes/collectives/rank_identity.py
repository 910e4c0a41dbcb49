# SPDX-License-Identifier: Apache-2.0
"""The rank that a process is, from the environment that its launcher gave it, and its handle of the
communicator of all ranks, from where its MPI library keeps that.

The process belongs to a job, so whatever it says is checked, and what cannot be read is no rank.
Environments: mpirun of Open MPI, PMIx, PMI (MPICH, Slurm), torchrun. Handles: mpi.h of Open MPI 4
(the address of a variable) and of MPICH (a number).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from stoker.native.errors import StokerError
from stoker.probes.calls.elf import ElfFile
from stoker.probes.calls.library_copies import MAPS_MAX, PROC, Copy, libraries_in, opened

ENVIRONMENT_MAX = 1 << 20
"""Most bytes of a process's environment that are read."""
RANKS_MAX = 256
"""SK_PEERS_RANKS of native/trace/peers/peers.h."""
KEPT_MAX = 256
"""Most files whose variable is remembered."""
WORLD = "ompi_mpi_comm_world"
STATE = "ompi_mpi_state"
BEGUN = 2
"""The state from which on ranks may call on each other (OMPI_MPI_STATE_INIT_COMPLETED)."""
MPICH_WORLD = 0x44000000

LAUNCHERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")),
    ("PMI_RANK", "PMI_SIZE", ("PMI_ID_JOB", "SLURM_STEP_ID")),
    ("SLURM_PROCID", "SLURM_NTASKS", ("SLURM_JOB_ID", "SLURM_STEP_ID")),
    ("RANK", "WORLD_SIZE", ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")),
)
"""Rank, number of ranks, and what tells one start of ranks from another; the first that is there
counts."""


class RankIdentity(msgspec.Struct, frozen=True):
    """The place of one process among those that were started with it."""

    rank: int
    size: int
    """The number of ranks; 0: not known."""
    key: int
    """A number that all have which were started together, and no others of the job."""
    world: int = 0
    """Its handle of the communicator of all ranks; 0: it has none."""
    launched: bool = True
    """False: no launcher says a rank."""
    from_start: bool = False
    """True: it has called on no communicator yet."""


def rank_of(environment: Mapping[str, str], pid: int) -> RankIdentity:
    """Return the rank that an environment states; without one the process is alone. Pure."""
    for rank, size, names in LAUNCHERS:
        if (number := _number(environment.get(rank))) is None:
            continue
        ranks = _number(environment.get(size)) or 0
        if number < RANKS_MAX and (not ranks or number < ranks <= RANKS_MAX):
            key = "\0".join((rank, *(environment.get(name, "") for name in names)))
            return RankIdentity(number, ranks, _digest(key))
    return RankIdentity(0, 1, _digest(f"pid {pid}"), launched=False)


class RankReader:
    """Reads processes; remembers what files hold. For one thread."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._variables: dict[tuple[object, ...], tuple[int, int] | None] = {}
        """Variable, file and state of its contents -> (address, base), None without one."""

    def read(self, pid: int, library: Copy) -> RankIdentity:
        """Return the rank of a process that has mapped `library`."""
        found = rank_of(self._environment(pid), pid)
        if "libmpi" not in library.path.rpartition("/")[2]:
            return found
        world, state = self._address(pid, library, WORLD), self._address(pid, library, STATE)
        return msgspec.structs.replace(
            found,
            world=MPICH_WORLD if world is None else world,
            from_start=bool(state) and self._word(pid, state or 0) in range(BEGUN),
        )

    def _environment(self, pid: int) -> dict[str, str]:
        try:
            with (self._proc / str(pid) / "environ").open("rb") as file:
                text = file.read(ENVIRONMENT_MAX).decode(errors="replace")
        except OSError:
            return {}
        pairs = (each.partition("=") for each in text.split("\0"))
        return {name: value for name, _, value in pairs}

    def _address(self, pid: int, library: Copy, name: str) -> int | None:
        """Return the address of a variable: in the program, if that has a copy of it, else in the
        library; 0 for a process that cannot be read. A library without the variables is MPICH's or
        none for messages."""
        try:
            with (self._proc / str(pid) / "maps").open("rb") as file:
                maps = file.read(MAPS_MAX).decode(errors="replace")
            program = (self._proc / str(pid) / "exe").readlink().name.removesuffix(" (deleted)")
        except OSError:
            return 0
        copies = [copy for copy in libraries_in(maps, (program,)) if copy.key != library.key]
        for copy in (*copies, library):
            if (found := self._variable(pid, copy, name)) is not None:
                return found[0] - found[1] + _loaded_at(maps, copy)
        return None

    def _variable(self, pid: int, copy: Copy, name: str) -> tuple[int, int] | None:
        try:
            with opened(pid, copy) as file:
                key = (name, *copy.key, *file.version)
                if key not in self._variables:
                    while len(self._variables) >= KEPT_MAX:
                        del self._variables[next(iter(self._variables))]
                    elf = ElfFile(file.fd, copy.path)
                    symbol = elf.variable(name)
                    self._variables[key] = (symbol.address, elf.base) if symbol else None
                return self._variables[key]
        except (StokerError, OSError):
            return None

    def _word(self, pid: int, address: int) -> int | None:
        """Return a number in the memory of a process."""
        try:
            with (self._proc / str(pid) / "mem").open("rb", buffering=0) as file:
                return int.from_bytes(os.pread(file.fileno(), 4, address), "little")
        except OSError:
            return None


def _loaded_at(maps: str, copy: Copy) -> int:
    """Return where the beginning of a file is mapped: its lowest address, at offset 0."""
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) > 4 and (fields[3], fields[4]) == (copy.device, str(copy.inode)):
            return int(fields[0].partition("-")[0], 16) - int(fields[2], 16)
    return 0


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
