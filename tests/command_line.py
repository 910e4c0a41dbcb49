# SPDX-License-Identifier: Apache-2.0
"""The command line for tests: a call costs a fork, not the start of an interpreter.

`product_node` calls `stoker` through it. The result is that of `subprocess.run`, and a call that
takes too long is killed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO

FORKER = Path(__file__).with_name("cli_forker.py")


def stoker(
    words: tuple[str, ...], environment: Mapping[str, str], stdin: bytes, timeout_s: float
) -> subprocess.CompletedProcess[bytes]:
    """Run one `stoker` command in a process of its own; TimeoutExpired: it was killed."""
    request = {"words": words, "environment": dict(environment), "folder": str(Path.cwd())}
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        tempfile.TemporaryFile() as asked,
    ):
        _write(given, stdin)
        _write(asked, json.dumps(request).encode())
        answers, theirs = socket.socketpair()
        with answers:
            with theirs:
                files = (given, out, err, asked, theirs)
                socket.send_fds(_forker()[0], [b"c"], [each.fileno() for each in files])
            code = _ended(answers, words, timeout_s)
        return subprocess.CompletedProcess(("stoker", *words), code, _read(out), _read(err))


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(data)
    file.seek(0)


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _ended(answers: socket.socket, words: tuple[str, ...], timeout_s: float) -> int:
    answers.settimeout(timeout_s)
    with answers.makefile("rb") as lines:
        pid = json.loads(lines.readline())["pid"]
        try:
            return int(json.loads(lines.readline())["returncode"])
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(("stoker", *words), timeout_s) from None


@cache
def _forker() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start the forker of this process, which ends with it; return the socket of its requests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        argv = [sys.executable, FORKER, str(theirs.fileno())]
        return ours, subprocess.Popen(argv, pass_fds=[theirs.fileno()])
