# SPDX-License-Identifier: Apache-2.0
"""The script answers `--version` alone, and leaves all else to the verbs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stoker import __version__, entry, main


def test_the_version_is_printed_without_any_package_but_ours() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "stoker", "--version"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout == f"stoker {__version__}\n"
    loaded = {
        line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()
    }
    assert "stoker" in loaded and not {"click", "inspect", "typing", "json"} & loaded


@pytest.mark.parametrize("words", [["--version", "-h"], ["jobs", "--version"], []])
def test_all_else_is_for_the_verbs(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(sys, "argv", ["stoker", *words])
    monkeypatch.setattr(main, "main", lambda: called.append(sys.argv[1:]))
    entry.main()
    assert called == [words]
