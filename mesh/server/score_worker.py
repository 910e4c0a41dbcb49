# SPDX-License-Identifier: Apache-2.0
"""The process in which one scoring function runs: `python -I -c SOURCE-OF-THIS-FILE`.

It imports nothing of stoker: the function's source comes with the first line, and requests and
answers are one line of JSON each. It has the user of the scheduler, which has no capabilities.
Guarantees that whatever the function prints goes nowhere, and that it dies with the process that
started it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from math import isfinite
from typing import Any

MEMORY_BYTES = 2 << 30
FILES_MAX = 64
ERROR_CHARS_MAX = 200
_PDEATHSIG = 1


def limit() -> None:
    """Give up what a function has no use for."""
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def loaded(source: str, name: str) -> Any:
    """Return the function `score` of a source."""
    space: dict[str, Any] = {"__name__": name}
    exec(compile(source, f"{name}.py", "exec"), space)
    return space["score"]


def scores(answer: Any, nodes: list[str]) -> list[float | None]:
    """Return a score for each node, None for one that is not to be taken; ValueError otherwise."""
    if isinstance(answer, dict):
        if unknown := set(answer) - set(nodes):
            raise ValueError(f"{sorted(unknown)[0]!r} is no candidate")
        answer = [answer.get(node) for node in nodes]
    if not isinstance(answer, (list, tuple)) or len(answer) != len(nodes):
        raise ValueError(f"not {len(nodes)} scores, but {str(answer)[:60]}")
    found = [None if each is None else float(each) for each in answer]
    known = [each for each in found if each is not None]
    if not known or not all(map(isfinite, known)):
        raise ValueError("no finite score" if known else "no score at all")
    return found


def answered(function: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return what becomes of one request."""
    try:
        answer = function(request["job"], request["candidates"])
    except BaseException as error:
        return {"raised": words(error)}
    try:
        return {"scores": scores(answer, [row["node"] for row in request["candidates"]])}
    except BaseException as error:
        return {"invalid": words(error)}


def words(error: BaseException) -> str:
    """Return what an error says of itself, or its class where that raises as well."""
    try:
        return f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX]
    except BaseException:
        return type(error).__name__[:ERROR_CHARS_MAX]


def main() -> None:
    """Load the function, then answer until the other side is gone."""
    limit()
    requests, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    first = json.loads(requests.readline())
    try:
        function, said = loaded(first["source"], first["name"]), {"loaded": ""}
    except BaseException as error:
        function, said = None, {"failed": words(error)}
    print(json.dumps(said), file=answers, flush=True)
    if function is None:
        return
    for line in requests:
        print(json.dumps(answered(function, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
