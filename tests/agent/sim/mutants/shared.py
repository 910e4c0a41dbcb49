# SPDX-License-Identifier: Apache-2.0
"""Faults that stories of several files plant. Each removes one guard, as those of `table.py` do."""

from __future__ import annotations

from tests.agent.sim.mutants.planting import Mutant

BESIDE_LOST = Mutant(
    "beside-lost", "stoker.agent.jobs.node_core", "NodeCore._carry_out",
    "self._attempts.ending_lost()", "False",
    "nothing starts while an attempt that was lost to the node has not ended",
)  # fmt: skip
