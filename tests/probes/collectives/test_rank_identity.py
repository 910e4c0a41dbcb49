# SPDX-License-Identifier: Apache-2.0
"""The rank of a process is read from environments as launchers make them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.probes.calls.library_copies import copies_of
from stoker.probes.collectives.rank_identity import RankIdentity, RankReader, rank_of

OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_NAMESPACE": "77"}
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "node-1", "MASTER_PORT": "29500"}


def test_launchers_are_understood() -> None:
    for environment, rank, size in (
        (OPEN_MPI, 2, 4),
        (TORCHRUN, 1, 2),
        ({"PMI_RANK": "0", "PMI_SIZE": "8"}, 0, 8),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "5"}, 3, 4),
    ):
        found = rank_of(environment, 9)
        assert (found.rank, found.size) == (rank, size)


def test_ranks_of_one_start_have_one_key_and_of_another_another() -> None:
    assert rank_of(OPEN_MPI, 1).key == rank_of({**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "3"}, 2).key
    assert rank_of(OPEN_MPI, 1).key != rank_of({**OPEN_MPI, "PMIX_NAMESPACE": "78"}, 1).key
    assert rank_of(TORCHRUN, 1).key != rank_of({**TORCHRUN, "MASTER_PORT": "29501"}, 1).key


def test_a_rank_inside_a_launched_job_is_that_of_the_inner_launcher() -> None:
    """A gang's task has RANK; what it starts with mpirun has Open MPI's besides."""
    assert rank_of({**TORCHRUN, **OPEN_MPI}, 9).rank == 2


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"RANK": "-1", "WORLD_SIZE": "2"},
        {"RANK": "4", "WORLD_SIZE": "4"},
        {"RANK": "1e3", "WORLD_SIZE": "4"},
        {"RANK": "9" * 40, "WORLD_SIZE": "9" * 41},
        {"RANK": "256"},
        {"RANK": "1", "WORLD_SIZE": "100000"},
    ],
)
def test_nonsense_is_a_process_alone(environment: dict[str, str]) -> None:
    found = rank_of(environment, 9)
    assert (found.rank, found.size) == (0, 1)
    assert found.key != rank_of(environment, 10).key


def test_a_process_that_is_gone_is_alone_and_has_no_communicator(tmp_path: Path) -> None:
    (copy,) = copies_of(os.getpid(), ("libc.so",))
    reader = RankReader(tmp_path)
    assert reader.read(1 << 22, copy) == RankIdentity(0, 1, rank_of({}, 1 << 22).key, 0, False)


@pytest.mark.skipif(shutil.which("mpicc") is None, reason="Open MPI is not installed")
def test_the_communicator_of_all_is_found_where_the_process_has_it(tmp_path: Path) -> None:
    """The program itself may have a copy of the variable, else the library has it."""
    source = tmp_path / "world.c"
    source.write_text(
        "#include <mpi.h>\n#include <stdio.h>\n"
        'int main(void) { printf("%p\\n", (void *)MPI_COMM_WORLD); fflush(stdout); getchar(); }\n'
    )
    for flags in (["-no-pie"], ["-pie"], ["-fPIC", "-pie", "-mno-direct-extern-access"]):
        program = tmp_path / "world"
        argv = ["mpicc", *flags, "-o", program, source]
        if subprocess.run(argv, capture_output=True, check=False).returncode:
            continue  # an older compiler knows no such option
        process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            said = int(process.stdout.readline(), 16)
            (copy,) = copies_of(process.pid, ("libmpi.so",))
            assert RankReader().read(process.pid, copy).world == said, flags
        finally:
            process.communicate("\n")


@pytest.mark.skipif(shutil.which("mpicc") is None, reason="Open MPI is not installed")
def test_a_process_that_is_not_through_its_first_call_has_made_no_other(tmp_path: Path) -> None:
    source, program = tmp_path / "begins.c", tmp_path / "begins"
    source.write_text(
        "#include <mpi.h>\n#include <stdio.h>\n"
        'static void say(void) { puts("here"); fflush(stdout); getchar(); }\n'
        "int main(void) { say(); MPI_Init(NULL, NULL); say(); MPI_Finalize(); say(); }\n"
    )
    subprocess.run(["mpicc", "-o", program, source], check=True)
    alone = {**os.environ, "OMPI_MCA_btl": "self"}
    process = subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=alone
    )
    found = []
    try:
        assert process.stdout is not None and process.stdin is not None
        while process.stdout.readline():
            (copy,) = copies_of(process.pid, ("libmpi.so",))
            found.append(RankReader().read(process.pid, copy).from_start)
            process.stdin.write("\n")
            process.stdin.flush()
    finally:
        process.kill()
        process.wait()
    assert found == [True, False, False]


@pytest.mark.skipif(shutil.which("mpicc") is None, reason="Open MPI is not installed")
def test_a_library_that_is_opened_late_has_it_too() -> None:
    code = (
        "import ctypes, sys\n"
        "lib = ctypes.CDLL('libmpi.so.40')\n"
        "print(ctypes.addressof(ctypes.c_char.in_dll(lib, 'ompi_mpi_comm_world')), flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        said = int(process.stdout.readline())
        (copy,) = copies_of(process.pid, ("libmpi.so",))
        assert RankReader().read(process.pid, copy).world == said
    finally:
        process.communicate("")
