# SPDX-License-Identifier: Apache-2.0
"""Starting a node: everything that can be checked is checked first, then one supervisor is started.

Owns the order of the first start (keys, users, configuration, and the format mark last), so that a
start that was cut off anywhere is simply repeated.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import select
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, replace

import msgspec

from stoker.agent.state import node_labels, state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import (
    broker_port,
    lock,
    log_rotation,
    pids,
    state_check,
    target_node,
    teardown,
)
from stoker.agent.supervise.file_backup import FileBackup
from stoker.agent.supervise.process_table import BROKER, broker_program, environment, programs
from stoker.agent.supervise.start_failure import FailedStart, cause
from stoker.mesh.broker import broker_config, budgets, users
from stoker.mesh.broker.users import User, Users
from stoker.mesh.identity import certificate, identity
from stoker.mesh.log import log_record
from stoker.native.errors import BadRequest, Corrupt, NotFound, NotSupported, Refused, StokerError

READY_S = 60.0
"""A machine may be so busy that a start takes long; what fails says so before."""
FAILURES_MAX = 4
"""A child that ended this often during the start will not come up by waiting."""


@dataclass(frozen=True)
class StartOptions:
    """What `stoker up` was asked for."""

    state: str | None = None
    foreground: bool = False
    port: int | None = None
    root_jobs_as: str | None = None
    labels: tuple[str, ...] = ()
    log_max_bytes: int = 64 << 20


@dataclass(frozen=True)
class StartedNode:
    """A node that serves."""

    state: StateFolder
    cluster: ClusterFile
    pid: int
    found: dict[str, pids.ProcessId]
    """What ran already: adopted, unless it was called otherwise than it would be now."""
    jobs_as: str
    """One sentence when the caller's jobs run as somebody else, or as root; else empty."""
    undo: FileBackup = FileBackup({})  # noqa: RUF009  a value that nobody changes
    """What a start that fails puts back."""

    @property
    def adopted(self) -> list[str]:
        """Names of those that go on as they were."""
        return [name for name, process in self.found.items() if pids.lives(process)]

    @property
    def url(self) -> str:
        return self.cluster.url


@state_folder.disk_errors()
def start(options: StartOptions) -> StartedNode:
    """Starts the node and waits until it serves; in the foreground it does not return."""
    where = state_folder.locate(options.state)
    check_broker()
    programs(where, allow_root=False)  # raises by name when a part was not built
    check_options(options, where)
    state_folder.prepare(where)
    held = _lock(where)
    undo = FileBackup({})
    try:
        cluster = load_or_create(where)
        undo = FileBackup.of(where.users, node_labels.file(where))
        started = replace(_arrange(where, cluster, options), undo=undo)
        settings = {
            "state": str(where.root),
            "lock": held,
            "port": started.cluster.port,
            "foreground": options.foreground,
            "allow_root": any(_is_root(user) for user in load_users(where).values()),
            "log_max_bytes": options.log_max_bytes,
        }
    except BaseException:
        undo.put_back()
        os.close(held)
        raise
    if options.foreground:
        _become_supervisor(settings)
    return _detach(started, settings, held)


def check_options(options: StartOptions, where: StateFolder) -> None:
    """Refuses what can be refused before a first start has made anything."""
    node_labels.checked(label for label in options.labels if label)
    if options.root_jobs_as is not None:
        _user("", options.root_jobs_as)
    if options.port is not None and not where.root.exists():
        broker_port.check(options.port)


def _arrange(where: StateFolder, cluster: ClusterFile, options: StartOptions) -> StartedNode:
    """Everything on disk as these options want it; ends what must be called otherwise."""
    table = load_users(where)
    found = pids.find(where)
    cluster = settle_port(where, cluster, options.port, found)
    if options.root_jobs_as is not None:
        table = map_caller(where, options.root_jobs_as)
        if "scheduler" in found:  # its successor decides by the new table from the first job on
            pids.end(found.pop("scheduler"), 5.0)
    if options.labels:
        node_labels.keep(options.labels, where)
        if "agent" in found:  # its successor says them; jobs go on
            pids.end(found.pop("agent"), 5.0)
    write_broker_config(where, cluster, table)
    state_folder.prepare_run(where)
    publish_certificate(where)
    return StartedNode(where, cluster, os.getpid(), found, _jobs_as(table))


def check_broker() -> str:
    """The version of the nats-server that would be started; NotSupported by name if it is wrong."""
    program = broker_program()
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotSupported(f"{program} does not run: {error}") from None
    try:
        return ".".join(map(str, broker_config.check_version(done.stdout + done.stderr)))
    except NotSupported as error:
        raise NotSupported(f"{program}: {error.message}", hint=error.hint) from None


def _lock(where: StateFolder) -> int:
    held = lock.take(where)
    if held is None:
        pid = lock.holder(where)
        raise Refused(
            f"a node already runs in {where.root} (pid {pid}{_endpoint(where)})",
            hint=f"`{target_node.call(where, 'down')}` ends it",
        )
    return held


def _endpoint(where: StateFolder) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError):
        return f", {json.loads(where.endpoint.read_bytes())['url']}"
    return ", still starting"


def load_or_create(where: StateFolder) -> ClusterFile:
    """The node of this folder; on the first start its identities and its table of users."""
    if state_folder.exists(where):
        state_folder.check_folders(where)
        state_check.check_owners(where)
        make_certificate(where)
        cluster = state_folder.load(where)
        _check_seeds(where, cluster)
        state_check.check(where, load_users(where))
        return cluster
    state_folder.check_first(where)
    return complete(where)


def complete(where: StateFolder) -> ClusterFile:
    """A first start, from wherever an earlier one was cut off: each step is taken once, in this
    order, so what a later one made proves that those before it were complete."""
    if where.cluster.exists() or where.users.exists():
        state_check.check_keys(where, load_users(where))
    keys = {name: identity.load_or_create(where.key(name)) for name in state_folder.IDENTITIES}
    caller = _caller()
    own = identity.load_or_create(where.key(f"user-{caller}"))
    make_certificate(where)
    if not where.users.exists():
        jobs_as = _default_mapping()
        rows = {"admin": keys["admin"].public, caller: own.public}
        users.save(
            where.users, {name: _user(key, jobs_as, admin=True) for name, key in rows.items()}
        )
    if not where.cluster.exists():
        log_record.begin(where.scheduler)
        port = broker_port.choose(where.instance)
        made = ClusterFile(str(uuid.uuid4()), _node_name(), keys["scheduler"].public, port)
        state_folder.write_cluster(where, made)
    cluster = state_folder.read_json(where.cluster, ClusterFile)
    _check_seeds(where, cluster)
    state_folder.seal_format(where)
    return cluster


def make_certificate(where: StateFolder) -> None:
    """What the broker proves itself by. One file without the other was damaged and is left as it
    is; a folder with neither gets both anew, and copies on other machines are then out of date."""
    if where.broker_key.exists() or (
        state_folder.exists(where) and where.broker_certificate.exists()
    ):
        return
    key, pinned = certificate.make(f"stoker broker {where.instance}")
    state_folder.write_file(where.broker_key, key)
    state_folder.write_file(where.broker_certificate, pinned)


def publish_certificate(where: StateFolder) -> None:
    """Puts the certificate where every user of this machine reads it and nobody else writes."""
    state_folder.write_file(where.certificate, certificate.read(where.broker_certificate), 0o644)


def _check_seeds(where: StateFolder, cluster: ClusterFile) -> None:
    """Every identity's key is one, and the scheduler's is that of this node; else Corrupt."""
    keys = {name: identity.load(where.key(name)) for name in state_folder.IDENTITIES}
    if keys["scheduler"].public != cluster.scheduler_public_key:
        path = where.key("scheduler")
        raise Corrupt(f"{path} is not the key that {where.cluster} names", hint="Restore them")


def load_users(where: StateFolder) -> Users:
    """The table of a complete folder: one that is missing there was lost."""
    try:
        return users.load(where.users)
    except NotFound:
        raise Corrupt(f"{where.users} is missing", hint="Restore it from a backup") from None


def _caller() -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())


def _node_name() -> str:
    return socket.gethostname().split(".")[0].lower()[:63] or "node"


def _default_mapping() -> str:
    """Unix user of the caller's jobs: the caller, but never root by itself."""
    if os.geteuid() != 0:
        return _caller()
    sudo = os.environ.get("SUDO_USER", "")
    return sudo if sudo and sudo != "root" else "nobody"


def _user(public: str, unix_user: str, *, admin: bool = False) -> User:
    try:
        pwd.getpwnam(unix_user)
    except KeyError:
        if unix_user == "nobody":  # a bare container: the overflow ids of the kernel
            return User(public_key=public, uid=65534, gid=65534, admin=admin)
        if unix_user == str(os.geteuid()):
            return User(public_key=public, uid=os.geteuid(), gid=os.getegid(), admin=admin)
        raise BadRequest(f"this machine knows no user {unix_user!r}") from None
    return User(public_key=public, unix_user=unix_user, admin=admin)


def map_caller(where: StateFolder, root_jobs_as: str) -> Users:
    """The table of users, after `--root-jobs-as` was written into it."""
    table = load_users(where)
    if os.geteuid() != 0:
        raise BadRequest("--root-jobs-as is for root: without root, jobs run as the caller")
    for name in ("admin", _caller()):
        if name in table:
            table[name] = _user(table[name].public_key, root_jobs_as, admin=True)
    users.save(where.users, table)
    return table


def _jobs_as(table: Users) -> str:
    caller = _caller()
    if caller not in table:
        return ""
    name = users.describe(table[caller])
    if name == caller and name != "root":
        return ""
    return f"jobs of {caller} run as {name} (--root-jobs-as changes it)"


def _is_root(user: User) -> bool:
    with contextlib.suppress(StokerError):
        return users.owner("x", user).uid == 0
    return False


def settle_port(
    where: StateFolder, cluster: ClusterFile, wanted: int | None, found: dict[str, pids.ProcessId]
) -> ClusterFile:
    """The node with the port that its broker will have; `cluster.json` gets it once the broker
    listens there (`supervisor.py`), so that a start that fails leaves no port behind."""
    if wanted is not None and not (wanted == cluster.port and BROKER in found):
        broker_port.check(wanted)  # before anything is ended for it
    port = wanted or cluster.port
    if BROKER in found:
        if port == cluster.port:
            return cluster
        pids.end(found.pop(BROKER), 5.0)
    if not port or not broker_port.is_usable(port):
        port = broker_port.choose(where.instance)
    where.endpoint.unlink(missing_ok=True)  # it names the port of the broker that is gone
    return msgspec.structs.replace(cluster, port=port)


def move_broker(where: StateFolder, cluster: ClusterFile) -> ClusterFile:
    """Gives the broker another free port, which the supervisor keeps once it listens there."""
    cluster = msgspec.structs.replace(cluster, port=broker_port.choose(where.instance))
    write_broker_config(where, cluster, load_users(where))
    return cluster


def write_broker_config(where: StateFolder, cluster: ClusterFile, table: Users) -> None:
    """Replaces nats-server.conf by what these keys and users come to."""
    state_folder.write_file(where.nats / "nats-server.conf", broker_text(where, cluster, table))


def broker_text(where: StateFolder, cluster: ClusterFile, table: Users) -> bytes:
    """nats-server.conf of this folder; raises by name when it cannot be made."""
    settings = broker_config.BrokerSettings(
        server_name=cluster.node,
        port=cluster.port,
        store_dir=str(where.nats / "jetstream"),
        key_file=str(where.broker_key),
        certificate_file=str(where.broker_certificate),
        budgets=budgets.read(where.root / "config.toml"),
    )
    keys = broker_config.BrokerKeys(
        scheduler=cluster.scheduler_public_key,
        agents={cluster.node: identity.load(where.key("agent")).public},
        users={name: user.public_key for name, user in table.items()},
        admins=frozenset(name for name, user in table.items() if user.admin),
    )
    return broker_config.render(settings, keys).encode()


def _command(settings: dict[str, object]) -> list[str]:
    argument = msgspec.json.encode(settings).decode()
    return [sys.executable, "-P", "-m", "stoker.agent.supervise.supervisor", argument]


def _become_supervisor(settings: dict[str, object]) -> None:
    """Same pid, so that systemd and a terminal see one process."""
    held = settings["lock"]
    assert isinstance(held, int)
    os.set_inheritable(held, True)
    command = _command(settings)
    os.execv(command[0], command)


def _detach(started: StartedNode, settings: dict[str, object], held: int) -> StartedNode:
    """Starts the supervisor in a session of its own and follows its reports until it serves."""
    heard, said = os.pipe()
    log = log_rotation.open_log(started.state.log / "supervisor.log")
    process = subprocess.Popen(
        _command({**settings, "report": said}),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd="/",
        env=environment(started.state),
        pass_fds=(held, said),
        start_new_session=True,
    )
    for handle in (held, said, log):
        os.close(handle)
    try:
        failed = _follow(heard, READY_S)
    finally:
        os.close(heard)
    if failed is None:
        return replace(started, pid=process.pid)
    raise _failure(started, failed)


def _follow(heard: int, timeout_s: float) -> FailedStart | None:
    """Reads reports until the node serves (None) or cannot."""
    deadline, data = time.monotonic() + timeout_s, b""
    last = FailedStart("supervisor", f"not ready after {timeout_s:g} s")
    while (left := deadline - time.monotonic()) > 0 and select.select([heard], [], [], left)[0]:
        piece = os.read(heard, 65536)
        if not piece:
            return replace(last, name="supervisor", text="ended")
        *lines, data = (data + piece).split(b"\n")
        for line in lines:
            report = json.loads(line)
            if report["event"] == "ready":
                return None
            last = last.heard(report)
            if last.failures >= FAILURES_MAX or last.is_corrupt:
                return last  # waiting mends neither
    return last


def _failure(started: StartedNode, ended: FailedStart) -> StokerError:
    """Cleans up after a start that failed, unless jobs of an earlier one may be running."""
    log = started.state.log / f"{ended.name}.log"
    lines = log_rotation.tail(log)
    if started.found:
        end = target_node.call(started.state, "down")
        rest = f"what ran before goes on and is tried again; `{end}` ends it"
    else:
        left = teardown.finish(started.state).left
        started.undo.put_back()
        rest = "everything started was ended" + "".join(f"; left: {text}" for text in left)
    return cause(ended, lines, hint=f"{rest[0].upper()}{rest[1:]}; its log is {log}")
