# SPDX-License-Identifier: Apache-2.0
"""The calls of GPU libraries that are counted and timed, with ids that never change meaning.

A call is one request of a program; its symbols (`_v2`, `_ptsz`) are found in the
library at hand. Pure. Names: cuda.h of CUDA 13 and nccl.h of NCCL 2.28.
"""

from __future__ import annotations

from dataclasses import dataclass

SUFFIXES = ("", "_v2", "_v3", "_v4", "_v5", "_v6", "_ptsz", "_v2_ptsz", "_v3_ptsz")
"""Forms in which the driver exports one call: revisions, and with a stream per thread."""


@dataclass(frozen=True, slots=True)
class CallTarget:
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

    @property
    def symbols(self) -> tuple[str, ...]:
        """Return every name by which a library may export it."""
        return tuple(self.symbol + suffix for suffix in SUFFIXES)


def _cuda(rate: int, *symbols: str) -> list[CallTarget]:
    return [CallTarget(f"cuda.{symbol}", "libcuda.so", symbol, rate) for symbol in symbols]


def _nccl(rate: int, *symbols: str) -> list[CallTarget]:
    return [CallTarget(f"nccl.{symbol}", "libnccl.so", symbol, rate) for symbol in symbols]


TARGETS: tuple[CallTarget, ...] = (
    *_cuda(1_000, "cuLaunchKernel", "cuLaunchKernelEx"),
    *_cuda(200, "cuLaunchCooperativeKernel", "cuGraphLaunch"),
    *_cuda(100, "cuMemAlloc", "cuMemAllocAsync", "cuMemAllocManaged", "cuMemAllocHost"),
    *_cuda(100, "cuMemAllocPitch", "cuMemCreate", "cuMemMap", "cuMemFree", "cuMemFreeAsync"),
    *_cuda(200, "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemcpyAsync"),
    *_cuda(200, "cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"),
    *_cuda(10, "cuCtxCreate", "cuModuleLoadData"),
    *_nccl(200, "ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclBroadcast"),
    *_nccl(200, "ncclSend", "ncclRecv", "ncclGroupEnd"),
    *_nccl(10, "ncclCommInitRank", "ncclCommInitRankConfig", "ncclCommDestroy"),
)
"""A call's number in the kernel is its place here, so new ones go to the end."""

LIBRARIES: tuple[str, ...] = tuple(dict.fromkeys(target.library for target in TARGETS))
