# SPDX-License-Identifier: Apache-2.0
"""Each binding is led to its simulated library, and what was in the environment stays."""

from __future__ import annotations

from pathlib import Path

from stoker.probes.simdriver import libraries
from stoker.probes.simdriver.profiles import AMD, INTEL, NVIDIA


def test_they_are_built() -> None:
    for path in (libraries.NVML, libraries.AMDSMI, libraries.ZE_LOADER, libraries.ZE_DRIVER):
        assert path.exists()


def test_what_was_there_comes_after() -> None:
    told = libraries.environment(
        Path("/n"), {NVIDIA, INTEL}, {"LD_LIBRARY_PATH": "/a", "LD_PRELOAD": "/b", "X": "1"}
    )
    assert told["STOKER_SIM_NODE"] == "/n"
    assert told["LD_LIBRARY_PATH"] == f"{libraries.NVML.parent}:/a"
    assert told["LD_PRELOAD"] == f"{libraries.ZE_LOADER}:/b"
    assert told["STOKER_CUPTI"] == str(libraries.CUPTI)
    assert Path(told["ROCM_PATH"], "lib/libamd_smi.so") == libraries.AMDSMI
    assert told["X"] == "1"


def test_nothing_is_preloaded_without_need() -> None:
    told = libraries.environment(Path("/n"), {NVIDIA, AMD}, {})
    assert "LD_PRELOAD" not in told
    assert told["LD_LIBRARY_PATH"] == str(libraries.NVML.parent)
