# SPDX-License-Identifier: Apache-2.0
"""The doctor's line on CUPTI, against libraries of every age."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stoker.native import paths
from stoker.probes.doctor import cupti_doctor


def library(folder: Path, version: int) -> Path:
    source = folder / "version.c"
    source.write_text(f"int cuptiGetVersion(unsigned *v) {{ *v = {version}; return 0; }}\n")
    made = folder / "libcupti.so.13"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, source], check=True)
    return made


@pytest.mark.parametrize(
    ("version", "status", "said"),
    [(130500, "PASS", "version 130500"), (16, "WARN", "older than CUDA 11.6")],
)
def test_the_version_decides(tmp_path: Path, version: int, status: str, said: str) -> None:
    (check,) = cupti_doctor.version_checks(library(tmp_path, version))
    assert (check.id, check.status) == ("probe.cupti", status)
    assert said in check.text


def test_a_library_that_does_not_load_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "libcupti.so.13"
    broken.write_text("no library")
    (check,) = cupti_doctor.version_checks(broken)
    assert check.status == "WARN" and str(broken) in check.text


def test_a_build_without_the_tracer_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    (check,) = cupti_doctor.cupti_checks()
    assert check.status == "WARN" and "not traced" in check.text and "pip install" in check.hint


def test_no_libcupti_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "library", Path)
    monkeypatch.setattr(cupti_doctor, "find_cupti", lambda: None)
    (check,) = cupti_doctor.cupti_checks()
    assert check.status == "WARN" and "no libcupti" in check.text
