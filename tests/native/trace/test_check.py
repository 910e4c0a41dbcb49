# SPDX-License-Identifier: Apache-2.0
"""Ring and reader in C under address and undefined-behaviour sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.sanitized import ROOT, built, output_of


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """check.c with the whole of native/trace, assertions on."""
    made = tmp_path_factory.mktemp("trace") / "check"
    parts = sorted((ROOT / "native/trace").glob("*/*.c"))
    return built(made, [*parts, Path(__file__).with_name("check.c")])


def test_one_producer_one_consumer(check: Path) -> None:
    assert output_of(check, "ring", "0.5").startswith("consumed")


def test_a_killed_producer_leaves_whole_records(check: Path) -> None:
    assert output_of(check, "killed", "1") == "killed 40\n"


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_in_segments(check: Path, tmp_path: Path, seed: int) -> None:
    assert output_of(check, "fuzz", tmp_path, str(seed), "400").startswith("fuzzed 400")
