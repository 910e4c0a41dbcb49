# SPDX-License-Identifier: Apache-2.0
"""The published table says of every exported function whether it answers.

Which do is read from the libraries: NVML's absent functions are weak symbols; the others' are
listed in their `unsupported.c`. `STOKER_GOLDEN=rewrite` writes the table anew; read the diff.
"""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from stoker.probes.simdriver import faults, libraries

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/operator/simulated-drivers.md"
MARK = re.compile(r"^<!-- generated: .*-->\n", re.MULTILINE)


class Library(NamedTuple):
    """A simulated one, and how its functions are told from its own symbols."""

    path: Path
    prefix: str
    folder: str


LIBRARIES = [
    Library(libraries.NVML, "nvml", "nvml"),
    Library(libraries.AMDSMI, "amdsmi_", "amdsmi"),
    Library(libraries.ZE_LOADER, "ze", "levelzero"),
    Library(libraries.CUDA, "cu", "cuda"),
]


def functions(library: Library) -> tuple[list[str], list[str]]:
    """(answer, do not): names of exported functions, sorted."""
    argv = ["nm", "-D", "--defined-only", library.path]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    found = re.findall(rf" ([TWV]) ({library.prefix}\w+)$", said, re.MULTILINE)
    listed = ROOT / "native/sim" / library.folder / "unsupported.c"
    absent = {name for kind, name in found if kind != "T"}
    if listed.exists():
        absent |= set(re.findall(r"^NOT_SUPPORTED\((\w+)\)", listed.read_text(), re.MULTILINE))
    names = {name for _, name in found}
    return sorted(names - absent), sorted(names & absent)


def table() -> Iterator[str]:
    for library in LIBRARIES:
        if not library.path.exists():
            continue
        answer, absent = functions(library)
        yield f"### {library.path.name}: {len(answer)} answer, {len(absent)} do not\n"
        for title, names in (("Answer", answer), ("Not supported", absent)):
            yield (
                textwrap.fill(
                    f"{title}: " + ", ".join(f"`{name}`" for name in names) + ".",
                    width=118,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
                + "\n"
            )


def test_the_page_names_every_function() -> None:
    page = PAGE.read_text(encoding="utf-8")
    head, made = MARK.split(page)
    mark = MARK.search(page)
    assert mark
    wanted = "\n" + "\n".join(table())
    if os.environ.get("STOKER_GOLDEN") == "rewrite":
        PAGE.write_text(head + mark[0] + wanted, encoding="utf-8")
        return
    assert made == wanted


def test_the_page_names_every_fault() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.read_text().split("## Faults")[1], re.MULTILINE)
    assert sorted(listed) == sorted(faults.kinds())


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.folder)
def test_a_library_says_that_it_is_simulated(library: Library) -> None:
    argv = ["nm", "-D", "--defined-only", library.path]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert re.search(r" [RDB] stoker_sim_driver$", said, re.MULTILINE)
    answer, absent = functions(library)
    assert min(len(answer), len(absent)) > 20
