# SPDX-License-Identifier: Apache-2.0
"""The start of a node: everything is checked that can be, then one supervisor is started.

For `stoker up`. Owns that a start which fails ends what it began and puts back the files that it
changed, and that one which is refused has changed nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time

import msgspec

from stoker.agent.state import (
    metrics_config,
    node_labels,
    retirement,
    state_folder,
)
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import (
    broker_port,
    broker_setup,
    lock,
    log_rotation,
    own_folder,
    own_users,
    pids,
    target_node,
    teardown,
)
from stoker.agent.supervise.file_backup import FileBackup
from stoker.agent.supervise.process_table import environment, programs
from stoker.agent.supervise.start_failure import FailedStart, cause
from stoker.agent.supervise.start_options import StartOptions, with_file
from stoker.native.errors import BadRequest, Refused, StokerError

READY_S = 60.0
"""Seconds to wait for a node, long because a machine may be busy; failures are reported earlier."""
FAILURES_MAX = 4
"""The number of failures in a row after which a process will not come up."""


class StartedNode(msgspec.Struct, frozen=True):
    """A node that serves."""

    state: StateFolder
    cluster: ClusterFile
    pid: int
    found: dict[str, pids.ProcessId]
    """Processes that ran already: adopted, unless their arguments have changed."""
    jobs_as: str
    """A sentence if the caller's jobs run as another user, or as root; else empty."""
    undo: FileBackup = FileBackup({})
    """Files that a failed start restores."""
    waits: str = ""
    """The part of its cluster for which a joined node waits; empty for a node that serves."""

    @property
    def adopted(self) -> list[str]:
        """The names of processes that were adopted."""
        return [name for name, process in self.found.items() if pids.lives(process)]

    @property
    def url(self) -> str:
        return self.cluster.url


@state_folder.disk_errors()
def start(options: StartOptions) -> StartedNode:
    """Start the node and wait until it serves; in the foreground this does not return."""
    where = state_folder.locate(options.state)
    options = with_file(options, where)
    broker_setup.check_broker()
    programs(where, allow_root=False)  # raises with the name of a part that was not built
    check_options(options, where)
    state_folder.prepare(where)
    retirement.check(where)
    lock_file = _lock(where)
    undo = FileBackup({})
    try:
        cluster = own_folder.load_or_create(where)
        undo = FileBackup.of(where.users, node_labels.file(where), metrics_config.file(where))
        started = msgspec.structs.replace(_arrange(where, cluster, options), undo=undo)
        settings = {
            "state": str(where.root),
            "lock": lock_file,
            "port": started.cluster.port,
            "foreground": options.foreground,
            "allow_root": cluster.is_first and own_users.any_root(own_users.load(where)),
            **({"log_max_bytes": options.log_max_bytes} if options.log_max_bytes else {}),
        }
    except BaseException:
        undo.put_back()
        os.close(lock_file)
        raise
    if options.foreground:
        _become_supervisor(settings)
    return _detach(started, settings, lock_file)


def check_options(options: StartOptions, where: StateFolder) -> None:
    """Refuse wrong options before a first start has made anything."""
    node_labels.checked(label for label in options.labels if label)
    if options.metrics:
        metrics_config.parse(options.metrics)
    if options.root_jobs_as is not None:
        if os.geteuid() != 0:
            said = options.said("root_jobs_as")
            raise BadRequest(f"{said} is for root: without root, jobs run as the caller")
        own_users.user("", options.root_jobs_as)
    if options.port is not None and not where.root.exists():
        broker_port.check(options.port)


def _arrange(where: StateFolder, cluster: ClusterFile, options: StartOptions) -> StartedNode:
    """Write these options to disk and end processes whose arguments they change."""
    found = pids.find(where)
    if not cluster.is_first:
        _check_joined(cluster, options)
    if cluster.joined or (cluster.waits and not cluster.is_first):
        jobs_as = ""
    else:
        cluster, jobs_as = _arrange_services(where, cluster, options, found)
    if options.metrics is not None:
        _check_metrics(where, options.metrics)
        metrics_config.keep(options.metrics, where)
    if options.labels:
        node_labels.keep(options.labels, where)
    if (options.labels or options.metrics is not None) and "agent" in found:
        pids.end(found.pop("agent"), 5.0)  # the next agent has them; jobs go on
    state_folder.prepare_run(where)
    own_folder.publish_certificate(where)
    return StartedNode(where, cluster, os.getpid(), found, jobs_as)


def _check_metrics(where: StateFolder, wanted: str) -> None:
    """Refuse a port for the metrics page that another program has."""
    listener = metrics_config.parse(wanted) if wanted else None
    if listener is None or not listener.port or ":" in listener.host:
        return
    own = metrics_config.serving(where)
    if own is not None and own.address == str(listener):
        return  # this node's agent serves there
    if not broker_port.is_free(listener.port, listener.host):
        raise Refused(
            f"the metrics page cannot be at {listener}: port {listener.port} is in use by"
            f" {broker_port.holder(listener.port)}",
            hint="Give another one with --metrics, or off",
        )


def _check_joined(cluster: ClusterFile, options: StartOptions) -> None:
    """Refuse options that only the node has where the cluster was made."""
    if options.port is not None or options.root_jobs_as is not None:
        given = options.said("port" if options.port is not None else "root_jobs_as")
        uses = f" and uses the broker at {cluster.url}" if cluster.joined else ""
        raise Refused(
            f"{given} is for the node where the cluster was made", hint=f"This one joined it{uses}"
        )


def _arrange_services(
    where: StateFolder,
    cluster: ClusterFile,
    options: StartOptions,
    found: dict[str, pids.ProcessId],
) -> tuple[ClusterFile, str]:
    """Arrange the broker and the scheduler; return the node, and how the caller's jobs run."""
    table = own_users.load(where)
    cluster = broker_setup.settle_port(where, cluster, options.port, found)
    if options.root_jobs_as is not None and not own_users.is_mapped(table, options):
        table = own_users.map_caller(where, options.root_jobs_as)
        if "scheduler" in found:  # the next scheduler decides by the new table at once
            pids.end(found.pop("scheduler"), 5.0)
    with state_folder.edit_lock(where):  # an adopted registrar may take a node at this moment
        broker_setup.write_config(where, cluster, table)
    return cluster, own_users.jobs_as(table)


def _lock(where: StateFolder) -> int:
    lock_file = lock.take(where)
    if lock_file is None:
        pid = lock.holder(where)
        raise Refused(
            f"a node already runs in {where.root} (pid {pid}{_endpoint(where)})",
            hint=f"`{target_node.call(where, 'down')}` ends it",
        )
    return lock_file


def _endpoint(where: StateFolder) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError):
        return f", {json.loads(where.endpoint.read_bytes())['url']}"
    return ", still starting"


def _command(settings: dict[str, object]) -> list[str]:
    argument = msgspec.json.encode(settings).decode()
    return [sys.executable, "-P", "-m", "stoker.agent.supervise.supervisor", argument]


def _become_supervisor(settings: dict[str, object]) -> None:
    """Become the supervisor with the same pid, so that systemd and a terminal see one process."""
    lock_file = settings["lock"]
    assert isinstance(lock_file, int)
    os.set_inheritable(lock_file, True)
    command = _command(settings)
    os.execv(command[0], command)


def _detach(started: StartedNode, settings: dict[str, object], lock_file: int) -> StartedNode:
    """Start the supervisor in its own session and follow its reports until the node serves."""
    reader, writer = os.pipe()
    log = log_rotation.open_log(started.state.log / "supervisor.log")
    process = subprocess.Popen(
        _command({**settings, "report": writer}),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd="/",
        env=environment(started.state),
        pass_fds=(lock_file, writer),
        start_new_session=True,
    )
    for handle in (lock_file, writer, log):
        os.close(handle)
    try:
        seen = _follow(reader, READY_S)
    finally:
        os.close(reader)
    if isinstance(seen, str):
        return msgspec.structs.replace(started, pid=process.pid, waits=seen)
    raise _failure(started, seen)


def _follow(reader: int, timeout_s: float) -> FailedStart | str:
    """Read reports until the node serves (""), only waits for its cluster (why), or cannot."""
    deadline, data = time.monotonic() + timeout_s, b""
    last = FailedStart("supervisor", f"not ready after {timeout_s:g} s")
    while (left := deadline - time.monotonic()) > 0 and select.select([reader], [], [], left)[0]:
        piece = os.read(reader, 65536)
        if not piece:
            return msgspec.structs.replace(last, name="supervisor", text="ended")
        *lines, data = (data + piece).split(b"\n")
        for line in lines:
            report = json.loads(line)
            if report["event"] in ("ready", "waiting"):
                return str(report.get("text", ""))
            last = last.after(report)
            if last.failures >= FAILURES_MAX or last.is_corrupt:
                return last  # waiting repairs neither
    return last


def _failure(started: StartedNode, ended: FailedStart) -> StokerError:
    """Clean up after a failed start, unless jobs of an earlier one may be running."""
    log = started.state.log / f"{ended.name}.log"
    lines = log_rotation.tail(log)
    if started.found:
        end = target_node.call(started.state, "down")
        rest = f"earlier processes go on and are restarted; `{end}` ends it"
    else:
        left = teardown.finish(started.state).left
        started.undo.put_back()
        rest = "all started processes were ended" + "".join(f"; left: {text}" for text in left)
    return cause(ended, lines, hint=f"{rest[0].upper()}{rest[1:]}; its log is {log}")
