# SPDX-License-Identifier: Apache-2.0
"""Some planted faults of the core are noticed; `make mutants` looks at all of them."""

from __future__ import annotations

import shutil

import pytest

from tests.native.core.mutants.hunt import ROOT, hunt
from tests.native.core.mutants.table import MUTANTS

SOME = {"held-time", "group-leak"}


def test_some_planted_faults_are_noticed() -> None:
    missing = [tool for tool in ("cmake", "ninja", "c++", "ar") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    assert hunt(SOME) == []


def test_every_planted_fault_can_be_planted() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20
    for mutant in MUTANTS:
        text = (ROOT / "native" / "core" / mutant.file).read_text()
        assert text.count(mutant.before) == 1, mutant.name
        assert mutant.after not in (mutant.before, text)
