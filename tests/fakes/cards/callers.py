# SPDX-License-Identifier: Apache-2.0
"""A process with a vendor's binding, which evaluates expressions for a test.

A binding finds its library once and keeps it, so no test loads one in its own process. The child
reads and writes lines of JSON; an exception comes back as {"error": ...}.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_LOOP = """
import ctypes, json, os, sys

names = {"ctypes": ctypes, "os": os}
for line in sys.stdin:
    kind, text = json.loads(line)
    try:
        done = (exec if kind == "do" else eval)(text, names)
        said = {"value": done}
    except Exception as error:
        code = getattr(error, "err_code", getattr(error, "value", 0))
        said = {"error": f"{type(error).__name__}: {error}", "code": code}
    print(json.dumps(said, default=str), flush=True)
"""


class Caller:
    """The process, with its answers to a test."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child

    def _say(self, kind: str, text: str) -> dict[str, Any]:
        assert self._child.stdin and self._child.stdout
        self._child.stdin.write(json.dumps([kind, text]) + "\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        assert answer, f"the child died of {text}"
        said: dict[str, Any] = json.loads(answer)
        return said

    def do(self, text: str) -> None:
        """Execute statements; an exception fails the test."""
        said = self._say("do", text)
        assert "error" not in said, said["error"]

    def ask(self, text: str) -> Any:
        """Evaluate an expression; an exception fails the test."""
        said = self._say("ask", text)
        assert "error" not in said, f"{text}: {said['error']}"
        return said["value"]

    def code(self, text: str) -> int:
        """The vendor's error code that an expression raises, or 0."""
        return int(self._say("ask", text).get("code", 0))

    def kill(self) -> None:
        """Kill the process, as a machine without memory does."""
        self._child.kill()
        self._child.wait()


@contextmanager
def calling(node: Path, **environment: str) -> Iterator[Caller]:
    """A process whose simulated node is `node`."""
    told = os.environ | environment | {"STOKER_SIM_NODE": str(node)}
    with subprocess.Popen(
        [sys.executable, "-c", _LOOP],
        env=told,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            yield Caller(child)
        finally:
            assert child.stdin
            with suppress(BrokenPipeError):
                child.stdin.close()
            child.wait(timeout=60)
