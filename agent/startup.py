# SPDX-License-Identifier: Apache-2.0
"""Starting a node: everything that can be checked is checked first, then one supervisor is started.

Relied on by `stoker up`. Owns the order of the first start (keys, users, configuration, and the
format mark last), so that a start that was cut off anywhere is simply repeated.
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

from stoker.agent import labels, lock, pids, ports, rotation, state, teardown
from stoker.agent.children import BROKER, broker_program, environment, programs
from stoker.agent.state import Cluster, State
from stoker.mesh import broker, certificate, identity, log_record, users
from stoker.mesh.users import User, Users
from stoker.native.errors import BadRequest, Corrupt, NotFound, NotSupported, Refused, StokerError

READY_S = 60.0
"""A machine may be so busy that a start takes long; what fails says so before."""
FAILURES_MAX = 4
"""A child that ended this often during the start will not come up by waiting."""


@dataclass(frozen=True)
class Options:
    """What `stoker up` was asked for."""

    state: str | None = None
    foreground: bool = False
    port: int | None = None
    root_jobs_as: str | None = None
    labels: tuple[str, ...] = ()
    log_max_bytes: int = 64 << 20


@dataclass(frozen=True)
class Started:
    """A node that serves."""

    state: State
    cluster: Cluster
    pid: int
    found: dict[str, pids.Process]
    """What ran already: adopted, unless it was called otherwise than it would be now."""
    jobs_as: str
    """One sentence when the caller's jobs run as somebody else, or as root; else empty."""

    @property
    def adopted(self) -> list[str]:
        """Names of those that go on as they were."""
        return [name for name, process in self.found.items() if pids.lives(process)]

    @property
    def url(self) -> str:
        return self.cluster.url


@state.disk_errors()
def start(options: Options) -> Started:
    """Starts the node and waits until it serves; in the foreground it does not return."""
    where = state.locate(options.state)
    check_broker()
    programs(where, allow_root=False)  # raises by name when a part was not built
    state.prepare(where)
    held = _lock(where)
    try:
        cluster = load_or_create(where)
        table = load_users(where)
        found = pids.find(where)
        if options.root_jobs_as is not None:
            table = map_caller(where, options.root_jobs_as)
            if "scheduler" in found:  # its successor decides by the new table from the first job on
                pids.end(found.pop("scheduler"), 5.0)
        if options.labels:
            labels.keep(options.labels, where)
            if "agent" in found:  # its successor says them; jobs go on
                pids.end(found.pop("agent"), 5.0)
        cluster = settle_port(where, cluster, options.port, found)
        write_broker_config(where, cluster, table)
        state.prepare_run(where)
        publish_certificate(where)
    except BaseException:
        os.close(held)
        raise
    started = Started(where, cluster, os.getpid(), found, _jobs_as(table))
    settings = {
        "state": str(where.root),
        "lock": held,
        "foreground": options.foreground,
        "allow_root": any(_is_root(user) for user in table.values()),
        "log_max_bytes": options.log_max_bytes,
    }
    if options.foreground:
        _become_supervisor(settings)
    return _detach(started, settings, held)


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
        return ".".join(map(str, broker.check_version(done.stdout + done.stderr)))
    except NotSupported as error:
        raise NotSupported(f"{program}: {error.message}", hint=error.hint) from None


def _lock(where: State) -> int:
    held = lock.take(where)
    if held is None:
        pid = lock.holder(where)
        raise Refused(
            f"a node already runs in {where.root} (pid {pid}{_endpoint(where)})",
            hint="`stoker down` ends it",
        )
    return held


def _endpoint(where: State) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError):
        return f", {json.loads(where.endpoint.read_bytes())['url']}"
    return ", still starting"


def load_or_create(where: State) -> Cluster:
    """The node of this folder; on the first start its identities and its table of users."""
    if state.exists(where):
        make_certificate(where)
        cluster = state.load(where)
        load_users(where)
        _check_seeds(where, cluster)
        return cluster
    keys = {name: identity.load_or_create(where.key(name)) for name in state.IDENTITIES}
    caller = _caller()
    own = identity.load_or_create(where.key(f"user-{caller}"))
    make_certificate(where)
    jobs_as = _default_mapping()
    table = {
        "admin": _user(keys["admin"].public, jobs_as, admin=True),
        caller: _user(own.public, jobs_as, admin=True),
    }
    users.save(where.users, table)
    port = ports.choose(where.instance)
    cluster = Cluster(str(uuid.uuid4()), _node_name(), keys["scheduler"].public, port)
    state.write_json(where.cluster, cluster)
    log_record.begin(where.scheduler)
    state.seal_format(where)
    return cluster


def make_certificate(where: State) -> None:
    """What the broker proves itself by. One file without the other was damaged and is left as it
    is; a folder with neither gets both anew, and copies on other machines are then out of date."""
    if where.broker_key.exists() or (state.exists(where) and where.broker_certificate.exists()):
        return
    key, pinned = certificate.make(f"stoker broker {where.instance}")
    state.write_file(where.broker_key, key)
    state.write_file(where.broker_certificate, pinned)


def publish_certificate(where: State) -> None:
    """Puts the certificate where every user of this machine reads it and nobody else writes."""
    state.write_file(where.certificate, certificate.read(where.broker_certificate), 0o644)


def _check_seeds(where: State, cluster: Cluster) -> None:
    """Every identity's key is one, and the scheduler's is that of this node; else Corrupt."""
    keys = {name: identity.load(where.key(name)) for name in state.IDENTITIES}
    if keys["scheduler"].public != cluster.scheduler_public_key:
        path = where.key("scheduler")
        raise Corrupt(f"{path} is not the key that {where.cluster} names", hint="Restore them")


def load_users(where: State) -> Users:
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


def map_caller(where: State, root_jobs_as: str) -> Users:
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
    where: State, cluster: Cluster, wanted: int | None, found: dict[str, pids.Process]
) -> Cluster:
    """The port the broker will have, remembered for the next start."""
    port = wanted or cluster.port
    if BROKER in found:
        if port == cluster.port:
            return cluster
        pids.end(found.pop(BROKER), 5.0)
    if wanted is not None and not ports.is_free(wanted):
        raise Refused(
            f"port {wanted} is in use by {ports.holder(wanted)}",
            hint="Give another one with --port, or none",
        )
    if not port or not ports.is_free(port):
        port = ports.choose(where.instance)
    cluster = msgspec.structs.replace(cluster, port=port)
    state.write_json(where.cluster, cluster)
    where.endpoint.unlink(missing_ok=True)  # it names the port of the broker that is gone
    return cluster


def move_broker(where: State, cluster: Cluster) -> Cluster:
    """Gives the broker another free port, remembered for the next start too."""
    cluster = msgspec.structs.replace(cluster, port=ports.choose(where.instance))
    write_broker_config(where, cluster, load_users(where))
    state.write_json(where.cluster, cluster)
    return cluster


def write_broker_config(where: State, cluster: Cluster, table: Users) -> None:
    """Replaces nats-server.conf by what these keys and users come to."""
    state.write_file(where.nats / "nats-server.conf", broker_config(where, cluster, table))


def broker_config(where: State, cluster: Cluster, table: Users) -> bytes:
    """nats-server.conf of this folder; raises by name when it cannot be made."""
    settings = broker.Settings(
        server_name=cluster.node,
        port=cluster.port,
        store_dir=str(where.nats / "jetstream"),
        key_file=str(where.broker_key),
        certificate_file=str(where.broker_certificate),
    )
    keys = broker.Keys(
        scheduler=cluster.scheduler_public_key,
        agents={cluster.node: identity.load(where.key("agent")).public},
        users={name: user.public_key for name, user in table.items()},
        admins=frozenset(name for name, user in table.items() if user.admin),
    )
    return broker.render(settings, keys).encode()


def _command(settings: dict[str, object]) -> list[str]:
    argument = msgspec.json.encode(settings).decode()
    return [sys.executable, "-P", "-m", "stoker.agent.supervisor", argument]


def _become_supervisor(settings: dict[str, object]) -> None:
    """Same pid, so that systemd and a terminal see one process."""
    held = settings["lock"]
    assert isinstance(held, int)
    os.set_inheritable(held, True)
    command = _command(settings)
    os.execv(command[0], command)


def _detach(started: Started, settings: dict[str, object], held: int) -> Started:
    """Starts the supervisor in a session of its own and follows its reports until it serves."""
    heard, said = os.pipe()
    log = rotation.open_log(started.state.log / "supervisor.log")
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
    raise _failure(started, *failed)


def _follow(heard: int, timeout_s: float) -> tuple[str, str] | None:
    """Reads reports until the node serves (None) or cannot: (process, what it did)."""
    deadline, data = time.monotonic() + timeout_s, b""
    last = ("supervisor", f"not ready after {timeout_s:g} s")
    while (left := deadline - time.monotonic()) > 0 and select.select([heard], [], [], left)[0]:
        piece = os.read(heard, 65536)
        if not piece:
            return ("supervisor", "ended")
        *lines, data = (data + piece).split(b"\n")
        for line in lines:
            report = json.loads(line)
            if report["event"] == "ready":
                return None
            last = (report["name"], report["text"])
            if report["failures"] >= FAILURES_MAX:
                return last
    return last


def _failure(started: Started, name: str, what: str) -> StokerError:
    """Cleans up after a start that failed, unless jobs of an earlier one may be running."""
    lines = rotation.tail(started.state.log / f"{name}.log")
    if started.found:
        rest = "what ran before goes on and is tried again; `stoker down` ends it"
    else:
        ended = teardown.finish(started.state)
        rest = "everything started was ended" + "".join(f"; left: {text}" for text in ended.left)
    log = "\n".join(["", *(f"  {line}" for line in lines)]) if lines else ""
    return StokerError(f"{name}: {what} ({rest}){log}")
