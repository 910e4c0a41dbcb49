# SPDX-License-Identifier: Apache-2.0
"""What is said of a job's tracers at its start; starts and stops are tested on whole nodes."""

from __future__ import annotations

from pathlib import Path

from stoker.agent.actuator import gone
from stoker.agent.jobs import Place


def test_a_tracer_whose_library_is_gone_is_named(tmp_path: Path) -> None:
    library = tmp_path / "libstoker-opencl.so"
    library.touch()
    place = Place("n", "/jobs", "/segments", str(library), {"cupti": str(tmp_path / "none.so")})
    assert list(gone(place)) == ["cupti"]
    library.unlink()
    assert str(library) in gone(place)["opencl"]
    assert gone(Place("n", "/jobs", "/segments")) == {}
