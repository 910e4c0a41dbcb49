# SPDX-License-Identifier: Apache-2.0
"""The places of the simulated driver libraries, and the environment that makes a process load them.

Each vendor's binding looks for its library in one way: NVIDIA's by the loader's path, AMD's by
ROCM_PATH. The binding of Level Zero names an absolute path, so a library is preloaded that has this
name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from stoker.native import _sim, paths
from stoker.probes.simdriver import older_library
from stoker.probes.simdriver.profiles import INTEL

FOLDER: Final = paths.ROOT / "lib" / "sim"
NVML: Final = FOLDER / "nvidia" / "libnvidia-ml.so.1"
CUDA: Final = FOLDER / "nvidia" / "libcuda.so.1"
NCCL: Final = FOLDER / "nvidia" / "libnccl.so.2"
CUPTI: Final = FOLDER / "nvidia" / "libcupti.so.13"
"""This library is built only where the CUPTI tracer is built."""
AMDSMI: Final = FOLDER / "rocm" / "lib" / "libamd_smi.so"
ZE_LOADER: Final = FOLDER / "levelzero" / "libze_loader.so.1"
ZE_DRIVER: Final = FOLDER / "levelzero" / "libze_stoker.so.1"


def environment(
    node: Path,
    vendors: Iterable[int],
    base: Mapping[str, str] | None = None,
    missing: Sequence[str] = (),
) -> dict[str, str]:
    """Return `base`, or this process's environment, for a process on the simulated node at `node`.

    NVML, CUDA, NCCL and AMD SMI are always the simulated ones, so that no real card stands between
    simulated ones. Level Zero is simulated only where the node has cards of Intel's, since a
    preloaded library is loaded into every process. Functions with one of `missing` in their name
    are absent: the libraries are then copies beside the node. BadRequest if no function has such a
    name.
    """
    folder = _lacking(node.parent / "drivers", missing) if missing else FOLDER
    nvidia, rocm, levelzero = folder / "nvidia", folder / "rocm", folder / "levelzero"
    told = dict(os.environ if base is None else base)
    told[_sim.VARIABLE] = str(node)
    told["LD_LIBRARY_PATH"] = _before(nvidia, told.get("LD_LIBRARY_PATH"))
    told["STOKER_CUPTI"] = str(nvidia / CUPTI.name)
    told["ROCM_PATH"] = told["ROCM_HOME"] = str(rocm)
    if INTEL in vendors:
        told["LD_PRELOAD"] = _before(levelzero / ZE_LOADER.name, told.get("LD_PRELOAD"))
        told["ZE_ENABLE_ALT_DRIVERS"] = str(levelzero / ZE_DRIVER.name)
        told["ZES_ENABLE_SYSMAN"] = "1"
    return told


def _lacking(folder: Path, missing: Sequence[str]) -> Path:
    all_of_them = [NVML, CUDA, NCCL, AMDSMI, ZE_LOADER, ZE_DRIVER]
    all_of_them += [CUPTI] if CUPTI.exists() else []
    older_library.copy({each: folder / each.relative_to(FOLDER) for each in all_of_them}, missing)
    return folder


def _before(first: Path, rest: str | None) -> str:
    return f"{first}:{rest}" if rest else str(first)
