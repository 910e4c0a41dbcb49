# SPDX-License-Identifier: Apache-2.0
"""The published figure is shown only beside the run that it is of."""

from __future__ import annotations

from stoker.scheduler.sim.published import FGD_PCT, fgd_pct


def test_only_the_published_run_compares() -> None:
    assert fgd_pct("default", 6212, 130) == 95.39
    assert fgd_pct("default", 6212, 100) is None
    assert fgd_pct("default", 8, 130) is None
    assert fgd_pct("mine", 6212, 130) is None
    assert len(FGD_PCT) == 17
