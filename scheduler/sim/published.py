# SPDX-License-Identifier: Apache-2.0
"""Published allocation of FGD on the openb workloads, for comparison in the same table.

Source: hkust-adsl/kubernetes-scheduler-simulator, experiments/analysis/
expected_results/analysis_allo_discrete.csv, policy 06-FGD, column 130: mean of seeds 42 to 51, in
percent of 6,212 GPUs. Their random generator is a different one, so only means can be compared.
"""

from __future__ import annotations

from typing import Final

ARRIVALS_PCT: Final = 130
GPUS: Final = 6212

FGD_PCT: Final[dict[str, float]] = {
    "default": 95.39,
    "cpu050": 95.21,
    "cpu100": 95.35,
    "cpu200": 95.05,
    "cpu250": 93.41,
    "gpushare40": 94.15,
    "gpushare60": 91.40,
    "gpushare80": 89.30,
    "gpushare100": 86.90,
    "gpuspec10": 94.95,
    "gpuspec20": 94.84,
    "gpuspec25": 94.74,
    "gpuspec33": 94.55,
    "multigpu20": 95.65,
    "multigpu30": 96.46,
    "multigpu40": 96.99,
    "multigpu50": 97.18,
}


def fgd_pct(workload: str, gpus: int, arrivals_pct: float) -> float | None:
    """Return the published mean; None if the run is not the published one."""
    if gpus != GPUS or arrivals_pct != ARRIVALS_PCT:
        return None
    return FGD_PCT.get(workload)
