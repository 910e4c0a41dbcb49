# SPDX-License-Identifier: Apache-2.0
"""The long rounds of the tests that have them: more seeds, switches, faults and damaged bytes.

    python -m tests.soak.long_rounds        (make soak)

Writes what ran to docs/measurements/long-rounds.md, and exits with 1 if a round failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.rounds import SOAK

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs" / "measurements" / "long-rounds.md"
HEAD = """# Long rounds

Measured on {date} with `make soak` ({cpus} cores): tests of `make test` with more rounds of the
same code. {failed} of {cases} cases failed.

| test | cases | failed | seconds |
|---|---|---|---|
"""


@dataclass
class Ran:
    """The cases of one test."""

    cases: int = 0
    failed: int = 0
    seconds: float = 0.0


def run(report: Path) -> int:
    """Run all tests that have long rounds; returns pytest's exit code."""
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "rounds or soak",
        "-p",
        "no:xdist",
        "--timeout=7200",
    ]
    environment = {**os.environ, SOAK: "1"}
    done = subprocess.run([*argv, f"--junitxml={report}"], cwd=ROOT, env=environment, check=False)
    return done.returncode


def read(report: Path) -> dict[str, Ran]:
    """Test -> its cases, from a JUnit report."""
    found: dict[str, Ran] = defaultdict(Ran)
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{str(case.get('name')).partition('[')[0]}"
        ran = found[name]
        ran.cases += 1
        ran.failed += case.find("failure") is not None or case.find("error") is not None
        ran.seconds += float(case.get("time", "0"))
    return found


def write(found: dict[str, Ran]) -> None:
    """Write the record."""
    cases = sum(each.cases for each in found.values())
    failed = sum(each.failed for each in found.values())
    text = HEAD.format(
        date=time.strftime("%Y-%m-%d"), cpus=os.cpu_count(), failed=failed, cases=cases
    )
    for name, each in sorted(found.items()):
        text += f"| {name} | {each.cases} | {each.failed} | {each.seconds:.0f} |\n"
    RECORD.write_text(text)


def main() -> int:
    """Run the rounds and write the record."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        code = run(report)
        write(read(report))
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
