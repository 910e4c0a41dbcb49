# SPDX-License-Identifier: Apache-2.0
"""The calls of libraries that are counted and timed, with ids that never change meaning.

A call is one request of a program; its symbols (`_v2`, `_ptsz`, `PMPI_`) are found in the
library at hand. A call in which ranks of a job wait for each other says how, and where its
communicator is. Pure. Names and arguments: cuda.h of CUDA 13, nccl.h of NCCL 2.28, MPI 4.0.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Waits = Literal[
    "", "start", "all", "some", "makes", "joins", "message", "later", "device", "begins"
]
"""The way in which a call waits for other ranks: native/trace/peers/peers.h."""

WAITS: tuple[Waits, ...] = (
    *("", "start", "all", "some", "makes", "joins", "message", "later", "device", "begins"),
)
"""The kinds in the order of their numbers there."""

NCCL = "libnccl.so"
"""The start of the file name of NCCL."""

COLLECTIVE, UNIQUE_ID = 2, 4
HANDLE_SHIFT, NUMBER_SHIFT, MADE_SHIFT = 4, 8, 12
"""Parts of a cookie: `native/records/collective.h`."""

SUFFIXES = ("", "_v2", "_v3", "_v4", "_v5", "_v6", "_ptsz", "_v2_ptsz", "_v3_ptsz")
"""Forms in which the driver exports one call: revisions, and with a stream per thread."""


class CallTarget(msgspec.Struct, frozen=True):
    """One call.

    `rate`: the planned calls a second until the job's own rate is known. It is low, because the
    governor removes an expensive site within a second and restores it slowly.
    """

    id: str
    library: str
    """The start of the file's name: libcuda.so for libcuda.so.1 and libcuda.so.580.65.06."""
    symbol: str
    rate: int
    inner: tuple[str, ...] = ()
    """Other functions that the call passes once each time, for use if its own site is costly."""
    usdt: str = ""
    """The provider:name of a library's own probe, which is preferred to the function."""
    waits: Waits = ""
    handle: int | None = None
    """The number of the argument with the communicator, from 0."""
    colour: int | None = None
    made: int | None = None
    """The number of the argument that says where a new communicator's handle is left."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Return every name by which a library may export it."""
        if self.symbol.startswith("MPI_"):
            return self.symbol, f"P{self.symbol}"
        return tuple(self.symbol + suffix for suffix in SUFFIXES)

    @property
    def ranked(self) -> bool:
        """Return whether the call is one of ranks. One that waits for the device is so only in a
        process whose device works for ranks."""
        return self.waits not in ("", "device")

    @property
    def told(self) -> int:
        """Return the parts of a cookie by which the kernel tells each call; 0: it tells none."""
        if not self.waits:
            return 0
        fields = (
            (self.handle, HANDLE_SHIFT),
            (self.colour, NUMBER_SHIFT),
            (self.made, MADE_SHIFT),
        )
        places = sum(place + 1 << shift for place, shift in fields if place is not None)
        return COLLECTIVE | places | (UNIQUE_ID if self.waits == "joins" else 0)


def _cuda(rate: int, *symbols: str) -> list[CallTarget]:
    return [CallTarget(f"cuda.{symbol}", "libcuda.so", symbol, rate) for symbol in symbols]


def _nccl(rate: int, *symbols: str) -> list[CallTarget]:
    return [CallTarget(f"nccl.{symbol}", NCCL, symbol, rate) for symbol in symbols]


def _waits_for_device(rate: int, *symbols: str) -> list[CallTarget]:
    return [msgspec.structs.replace(target, waits="device") for target in _cuda(rate, *symbols)]


def _begins(rate: int, **handles: int) -> list[CallTarget]:
    """Return NCCL's calls on a communicator, which is this argument of each."""
    return [
        CallTarget(f"nccl.{symbol}", NCCL, symbol, rate, waits="later", handle=handle)
        for symbol, handle in handles.items()
    ]


def _on(waits: Waits, rate: int, handles: dict[str, int]) -> list[CallTarget]:
    """Return MPI's calls on a communicator; `handles`: function -> the argument that it is."""
    return [
        CallTarget(f"mpi.{symbol}", "libmpi.so", symbol, rate, waits=waits, handle=handle)
        for symbol, handle in handles.items()
    ]


def _mpi(waits: Waits, rate: int, *symbols: str) -> list[CallTarget]:
    return [
        CallTarget(f"mpi.{symbol}", "libmpi.so", symbol, rate, waits=waits) for symbol in symbols
    ]


def _maker(symbol: str, made: int, colour: int | None = None) -> CallTarget:
    """Return a call that makes a communicator of the one that is its first argument."""
    id = f"mpi.{symbol}"
    return CallTarget(id, "libmpi.so", symbol, 1, waits="makes", handle=0, colour=colour, made=made)


def _joiner(symbol: str) -> CallTarget:
    id = f"nccl.{symbol}"
    return CallTarget(id, NCCL, symbol, 10, waits="joins", made=0)


TARGETS: tuple[CallTarget, ...] = (
    *_cuda(1_000, "cuLaunchKernel", "cuLaunchKernelEx"),
    *_cuda(200, "cuLaunchCooperativeKernel", "cuGraphLaunch"),
    *_cuda(100, "cuMemAlloc", "cuMemAllocAsync", "cuMemAllocManaged", "cuMemAllocHost"),
    *_cuda(100, "cuMemAllocPitch", "cuMemCreate", "cuMemMap", "cuMemFree", "cuMemFreeAsync"),
    *_cuda(200, "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemcpyAsync"),
    *_waits_for_device(200, "cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"),
    *_cuda(10, "cuCtxCreate", "cuModuleLoadData"),
    *_begins(200, ncclAllReduce=5, ncclReduceScatter=5, ncclAllGather=4, ncclBroadcast=5),
    *_nccl(200, "ncclSend", "ncclRecv", "ncclGroupEnd"),
    _joiner("ncclCommInitRank"),
    _joiner("ncclCommInitRankConfig"),
    *_nccl(10, "ncclCommDestroy"),
    *_mpi("start", 1, "MPI_Init", "MPI_Init_thread"),
    *_on("all", 100, {"MPI_Barrier": 0, "MPI_Allreduce": 5, "MPI_Allgather": 6}),
    *_on("all", 20, {"MPI_Alltoall": 6, "MPI_Reduce_scatter": 5, "MPI_Reduce_scatter_block": 5}),
    *_on("some", 50, {"MPI_Bcast": 4, "MPI_Reduce": 6}),
    *_on("some", 10, {"MPI_Gather": 7, "MPI_Gatherv": 8, "MPI_Scatter": 7, "MPI_Scatterv": 8}),
    *_on("some", 10, {"MPI_Allgatherv": 7, "MPI_Alltoallv": 8, "MPI_Alltoallw": 8}),
    *_on("some", 10, {"MPI_Scan": 5, "MPI_Exscan": 5}),
    *_on("begins", 10, {"MPI_Ibarrier": 0, "MPI_Iallreduce": 5, "MPI_Ibcast": 4, "MPI_Ireduce": 6}),
    *_on("begins", 10, {"MPI_Iallgather": 6, "MPI_Ialltoall": 6}),
    _maker("MPI_Comm_dup", made=1),
    _maker("MPI_Comm_split", made=3, colour=1),
    _maker("MPI_Comm_split_type", made=4, colour=1),
    *_mpi("message", 50, "MPI_Recv", "MPI_Wait", "MPI_Waitall", "MPI_Sendrecv"),
    *_mpi("message", 10, "MPI_Waitany", "MPI_Waitsome", "MPI_Probe", "MPI_Ssend"),
    *_mpi("message", 1, "MPI_Finalize"),
    *_begins(50, ncclReduce=6),
    *_nccl(1, "ncclCommAbort"),
    *_mpi("message", 50, "MPI_Send", "MPI_Sendrecv_replace"),
    *_mpi("message", 10, "MPI_Mprobe", "MPI_Neighbor_allgather", "MPI_Neighbor_allgatherv"),
    *_mpi("message", 10, "MPI_Neighbor_alltoall", "MPI_Neighbor_alltoallv"),
    *_mpi("message", 10, "MPI_Win_fence", "MPI_Win_complete", "MPI_Win_wait"),
    *_mpi("message", 10, "MPI_Win_unlock", "MPI_Win_unlock_all", "MPI_Win_flush"),
    *_mpi("message", 1, "MPI_File_read_all", "MPI_File_read_at_all", "MPI_File_write_all"),
    *_mpi("message", 1, "MPI_File_write_at_all", "MPI_File_close", "MPI_Comm_create"),
    _maker("MPI_Cart_create", made=5),
)
"""A call's number in the kernel is its place here, so new ones go to the end."""

LIBRARIES: tuple[str, ...] = tuple(dict.fromkeys(target.library for target in TARGETS))
