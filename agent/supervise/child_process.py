# SPDX-License-Identifier: Apache-2.0
"""The start of one process of a node: its session, its log, its limits, and what it may not do.

For the supervisor. Owns that a child keeps none of the rights that its program does not need.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import confine, log_rotation, notify_socket, pids
from stoker.agent.supervise.process_table import Program, environment


def spawn(program: Program, state: StateFolder) -> int:
    """Start one program in its own session, confined, with its log file as output."""
    variables = environment(state)
    pid = os.fork()
    if pid != 0:
        return pid
    try:
        os.setsid()
        log = log_rotation.open_log(state.log / f"{program.spec.name}.log")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        confine.limit(program.nofile)
        if program.capless and confine.may_drop():
            reached = [Path(sys.executable), Path(__file__), Path(program.argv[0]), state.root]
            confine.drop_capabilities(confine.needed_to_read(reached))
        confine.no_new_privileges()
        variables["NOTIFY_SOCKET"] = str(notify_socket.path(state))
        variables[pids.MARK] = pids.mark(state.instance, program.spec.name, os.getpid())
        os.chdir("/")
        os.execve(program.argv[0], program.argv, variables)
    except BaseException as error:
        os.write(2, f"{program.argv[0]}: cannot be started: {error}\n".encode())
    os._exit(127)


def exit_text(status: int) -> str:
    """Return a wait status in words for people."""
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
