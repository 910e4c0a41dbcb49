# SPDX-License-Identifier: Apache-2.0
"""The programs of `bench trace` and `bench probes`, each run in a Python process of its own.

The benches belong to the tracer, which a viewer must not import.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

TRACE_BENCH = """
import json, sys
from stoker.native.errors import StokerError
from stoker.probes.bench import bench_trace
try:
    result = bench_trace.run(sys.argv[1] == "1", int(sys.argv[2]), float(sys.argv[3]))
except StokerError as error:
    sys.exit(f"stoker: {error}")
if sys.argv[1] == "1":
    print(json.dumps(result, indent=2))
"""
"""Program of `bench trace`: arguments are json (0 or 1), rounds, seconds."""


PROBES_BENCH = """
import json, sys
from stoker.native.errors import StokerError
from stoker.native.paths import NotBuilt
from stoker.probes.bench import bench_probes, launch_loops
asked = json.loads(sys.argv[1])
say = sys.stderr if asked.pop("as_json") else sys.stdout
try:
    result = launch_loops.run(
        **asked, told=lambda row: print(bench_probes.line(row), file=say, flush=True)
    )
except (StokerError, NotBuilt) as error:
    sys.exit(f"stoker: {error}")
if say is sys.stderr:
    print(json.dumps(result, indent=2))
else:
    print(bench_probes.text(result))
"""
"""Program of `bench probes`: the argument is a JSON object, what `run` takes and `as_json`."""


def run_trace(rounds: int, seconds: float, *, as_json: bool) -> int:
    """Run `bench trace`; returns its exit status."""
    return _run(TRACE_BENCH, str(int(as_json)), str(rounds), str(seconds))


def run_probes(**asked: Any) -> int:
    """Run `bench probes` with the arguments of its `run` and `as_json`; returns its exit status."""
    return _run(PROBES_BENCH, json.dumps(asked))


def _run(program: str, *words: str) -> int:
    return subprocess.run([sys.executable, "-c", program, *words], check=False).returncode
