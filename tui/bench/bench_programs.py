# SPDX-License-Identifier: Apache-2.0
"""Programs of benches, each in a Python process of its own, which the calling one becomes.

These benches belong to the tracer and the agent, which a viewer must not import.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NoReturn

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


def run_trace(rounds: int, seconds: float, *, as_json: bool) -> NoReturn:
    """Become `bench trace`."""
    _become(TRACE_BENCH, str(int(as_json)), str(rounds), str(seconds))


def run_probes(**asked: Any) -> NoReturn:
    """Become `bench probes` with the arguments of its `run` and `as_json`."""
    _become(PROBES_BENCH, json.dumps(asked))


def _become(program: str, *words: str) -> NoReturn:
    become("-c", program, *words)


def become(*words: str) -> NoReturn:
    """Become a Python process with these arguments.

    A process beside this one would go on measuring when this one is ended by a signal.
    """
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *words])
