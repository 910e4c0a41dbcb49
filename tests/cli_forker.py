# SPDX-License-Identifier: Apache-2.0
"""A process that has loaded the command line once and forks a process for every call of it.

`tests/command_line.py` starts it, one for each worker of the tests. Three quarters of a short
command are the loading of its modules, and the tests call thousands. Each call has a process of its
own with its words, variables, folder and files; how the real script starts is shown by the tests
that call it (test_main.py, agent/test_up.py, tui/test_live.py, test_examples.py).

Usage: `python cli_forker.py FD`, where FD is a socket of packets. Each packet is one call and has
five files with it: stdin, stdout, stderr, the request (JSON) and a socket for the answers,
`{"pid"}` and `{"returncode"}`, a line each. The process ends when the other end of FD is closed.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import pkgutil
import selectors
import socket
import sys
import threading
import traceback
from typing import NoReturn

FILES = 5
FILES_MAX = 1024
LOADED = (
    "cryptography.hazmat.backends.openssl.backend",
    "cryptography.x509",
    "encodings.idna",
    "stoker.agent.supervise.server_setup",
    "stoker.agent.supervise.startup",
    "stoker.agent.supervise.teardown",
    "stoker.mesh.client.job_output",
    "stoker.mesh.identity.certificate",
    "stoker.mesh.replica.new_cluster",
)
PACKAGES = ("stoker.tui.calls", "stoker.tui.render", "stoker.tui.top.views")
"""Commands load these when they run; the modules that define commands are loaded too."""


def load() -> None:
    """Import what calls need; nothing of it may start a thread, because calls are forked."""
    from stoker.main import VERBS

    for name in sorted({module for module, _ in VERBS.values()} | set(LOADED)):
        importlib.import_module(name)
    for package in PACKAGES:
        path = importlib.import_module(package).__path__
        for module in pkgutil.iter_modules(path, f"{package}."):
            importlib.import_module(module.name)
    assert threading.active_count() == 1, threading.enumerate()


def call(request: dict[str, object], files: list[int]) -> NoReturn:
    """Be the process of one call, from its first instruction to its end."""
    code = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.closerange(3, FILES_MAX)
        os.chdir(str(request["folder"]))
        os.environ.clear()
        os.environ.update(request["environment"])  # type: ignore[arg-type]
        sys.argv = ["stoker", *request["words"]]  # type: ignore[misc]
        code = _main()
    except BaseException:
        traceback.print_exc()
    finally:
        _end(code)


def _main() -> int:
    from stoker.main import main

    try:
        main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return int(end.code or 0)
    return 0


def _end(code: int) -> NoReturn:
    """End as an interpreter does: threads are waited for, exit handlers run, output is written."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def begin(files: list[int], answers: int) -> int:
    """Fork the process of a call; return its pid."""
    with os.fdopen(files.pop(), "rb") as file:
        request = json.load(file)
    pid = os.fork()
    if pid == 0:
        call(request, files)
    for each in files:
        os.close(each)
    os.write(answers, b'{"pid": %d}\n' % pid)
    return pid


def end(pid: int, answers: int) -> None:
    """Tell how the process of a call ended."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(answers, b'{"returncode": %d}\n' % code)
    os.close(answers)


def serve(requests: socket.socket) -> None:
    """Begin calls and tell their ends until nobody can send a request."""
    calls: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _events in selector.select():
                if key.fileobj is not requests:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    end(*calls.pop(key.fd))
                    continue
                data, files, _flags, _address = socket.recv_fds(requests, 1, FILES)
                if not data:
                    return
                answers = files.pop()
                pid = begin(files, answers)
                process = os.pidfd_open(pid)
                calls[process] = (pid, answers)
                selector.register(process, selectors.EVENT_READ)


if __name__ == "__main__":
    load()
    serve(socket.socket(fileno=int(sys.argv[1])))
