# SPDX-License-Identifier: Apache-2.0
"""Where the simulated driver libraries are, and the environment in which a process loads them.

Relied on by `stoker sim driver` and by tests that start programs on simulated cards. Each vendor's
binding is led to its library by the only way it knows: the loader's path, ROCM_PATH, or, for
Level Zero, whose binding names an absolute path, a library preloaded under that name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from stoker.native import _sim, paths
from stoker.probes.simdriver.profiles import INTEL

FOLDER: Final = paths.ROOT / "lib" / "sim"
NVML: Final = FOLDER / "nvidia" / "libnvidia-ml.so.1"
CUDA: Final = FOLDER / "nvidia" / "libcuda.so.1"
AMDSMI: Final = FOLDER / "rocm" / "lib" / "libamd_smi.so"
ZE_LOADER: Final = FOLDER / "levelzero" / "libze_loader.so.1"
ZE_DRIVER: Final = FOLDER / "levelzero" / "libze_stoker.so.1"


def environment(
    node: Path, vendors: Iterable[int], base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """`base`, or this process's own, as a process on the simulated node at `node` wants it.

    NVML, CUDA and AMD SMI are always the simulated ones, so that no real card stands between
    simulated ones; Level Zero is one where the node has cards of Intel's, since a preloaded library
    is in every process.
    """
    told = dict(os.environ if base is None else base)
    told[_sim.VARIABLE] = str(node)
    told["LD_LIBRARY_PATH"] = _before(NVML.parent, told.get("LD_LIBRARY_PATH"))
    told["ROCM_PATH"] = told["ROCM_HOME"] = str(AMDSMI.parents[1])
    if INTEL in vendors:
        told["LD_PRELOAD"] = _before(ZE_LOADER, told.get("LD_PRELOAD"))
        told["ZE_ENABLE_ALT_DRIVERS"] = str(ZE_DRIVER)
        told["ZES_ENABLE_SYSMAN"] = "1"
    return told


def _before(first: Path, rest: str | None) -> str:
    return f"{first}:{rest}" if rest else str(first)
