# SPDX-License-Identifier: Apache-2.0
"""A planted fault of the core is noticed; `make mutants` looks at all of them."""

from __future__ import annotations

import shutil

import pytest

from tests.native.core.mutants.hunt import ROOT, hunt
from tests.native.core.mutants.table import MUTANTS
from tests.rounds import rounds

SOME = ("held-time", "group-leak")


@pytest.mark.rounds
@pytest.mark.parametrize("name", SOME[: rounds(1, len(SOME))])
def test_a_planted_fault_is_noticed(name: str) -> None:
    missing = [tool for tool in ("cmake", "ninja", "c++", "ar") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    assert hunt({name}, look_at_plain=bool(rounds(0, 1))) == []


def test_every_planted_fault_can_be_planted() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20
    for mutant in MUTANTS:
        text = (ROOT / "native" / "core" / mutant.file).read_text()
        assert text.count(mutant.before) == 1, mutant.name
        assert mutant.after not in (mutant.before, text)
