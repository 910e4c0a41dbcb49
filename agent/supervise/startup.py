# SPDX-License-Identifier: Apache-2.0
"""The start of a node: everything is checked that can be, then one supervisor is started.

The first start makes keys, users and configuration in this order, and the format mark last, so that
a start that was interrupted anywhere is simply repeated.
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

import msgspec

from stoker.agent.state import (
    gossip_files,
    joins,
    metrics_config,
    node_labels,
    retirement,
    state_folder,
)
from stoker.agent.state.joins import JoinedNode, Joins
from stoker.agent.state.state_folder import GUEST, REGISTRAR, ClusterFile, StateFolder
from stoker.agent.supervise import (
    broker_port,
    lock,
    log_rotation,
    pids,
    server_setup,
    state_check,
    target_node,
    teardown,
)
from stoker.agent.supervise.file_backup import FileBackup
from stoker.agent.supervise.process_table import environment, programs
from stoker.agent.supervise.start_failure import FailedStart, cause
from stoker.agent.supervise.start_options import StartOptions, with_file
from stoker.mesh.broker import broker_config, budgets, revoked_keys, spool_bounds, users
from stoker.mesh.broker.broker_program import BROKER, broker_program
from stoker.mesh.broker.revoked_keys import RevokedKeys
from stoker.mesh.broker.users import User, Users
from stoker.mesh.connection.context import LOOPBACK
from stoker.mesh.identity import certificate, identity, sealed_json
from stoker.mesh.log import log_record
from stoker.mesh.server import departures_file
from stoker.native import durable_file
from stoker.native.errors import BadRequest, Corrupt, NotFound, NotSupported, Refused, StokerError

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
    check_broker()
    programs(where, allow_root=False)  # raises with the name of a part that was not built
    check_options(options, where)
    state_folder.prepare(where)
    retirement.check(where)
    lock_file = _lock(where)
    undo = FileBackup({})
    try:
        cluster = load_or_create(where)
        undo = FileBackup.of(where.users, node_labels.file(where), metrics_config.file(where))
        started = msgspec.structs.replace(_arrange(where, cluster, options), undo=undo)
        settings = {
            "state": str(where.root),
            "lock": lock_file,
            "port": started.cluster.port,
            "foreground": options.foreground,
            "allow_root": cluster.is_first and _any_root(load_users(where)),
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
        _user("", options.root_jobs_as)
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
    publish_certificate(where)
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
    table = load_users(where)
    cluster = settle_port(where, cluster, options.port, found)
    if options.root_jobs_as is not None and not _is_mapped(table, options):
        table = map_caller(where, options.root_jobs_as)
        if "scheduler" in found:  # the next scheduler decides by the new table at once
            pids.end(found.pop("scheduler"), 5.0)
    with state_folder.edit_lock(where):  # an adopted registrar may take a node at this moment
        write_broker_config(where, cluster, table)
    return cluster, _jobs_as(table)


def check_broker() -> str:
    """Return the version of nats-server; NotSupported if it is wrong or missing."""
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


def load_or_create(where: StateFolder, name: str = "") -> ClusterFile:
    """Return the node of this folder; a first start makes its identities and its users. `name`:
    that of a new node, by default the host's."""
    if state_folder.exists(where):
        state_folder.check_folders(where)
        state_check.check_owners(where)
        if state_folder.has_joined(where):
            cluster = state_folder.load(where)
            state_check.check(where, None)
            return cluster
        make_certificate(where)
        cluster = state_folder.load(where)
        _check_seeds(where, cluster)
        if cluster.is_first or not cluster.waits:
            state_check.check(where, load_users(where), cluster.admin)
        if cluster.takes_hosts:
            make_door(where)
            gossip_files.make(where)
        return cluster
    state_folder.check_first(where)
    return complete(where, name)


def complete(where: StateFolder, name: str = "") -> ClusterFile:
    """Complete a first start from wherever an earlier one was interrupted. Each step is done once
    and in this order, so the result of a step proves that the earlier steps were complete."""
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
        named = name or node_name()
        made = ClusterFile(str(uuid.uuid4()), named, keys["scheduler"].public, port)
        state_folder.write_cluster(where, made)
    cluster = state_folder.read_json(where.cluster, ClusterFile)
    _check_seeds(where, cluster)
    if not where.genesis.exists():
        _found(where, cluster)
    state_folder.seal_format(where)
    return cluster


def _found(where: StateFolder, cluster: ClusterFile) -> None:
    """Write the genesis; its modules, with the core, are loaded for a first start alone."""
    from stoker.mesh.replica import cluster_limits
    from stoker.mesh.replica.new_cluster import founding
    from stoker.mesh.server import level_pin

    settings = where.root / "config.toml"
    limits, level = cluster_limits.read(settings), level_pin.read(settings).newest
    accounts = users.accounts(load_users(where))
    made = founding(cluster.cluster, cluster.scheduler_public_key, limits, accounts, level)
    durable_file.replace(where.genesis, sealed_json.encode(made))


def make_certificate(where: StateFolder) -> None:
    """Make the broker's key and certificate if both are missing; copies of an older certificate on
    other machines are then out of date. One file without the other is damage and stays as it is."""
    if where.broker_key.exists() or (
        state_folder.exists(where) and where.broker_certificate.exists()
    ):
        return
    key, pinned = certificate.make(f"stoker broker {where.instance}")
    durable_file.replace(where.broker_key, key)
    durable_file.replace(where.broker_certificate, pinned)


def make_door(where: StateFolder) -> None:
    """Make what a node needs that other hosts may join: two keys and an empty record, each if it
    is missing and no node has joined yet. A record that was lost with its nodes is not made again.
    """
    if not where.key(GUEST).exists():
        if not where.joins.exists():
            joins.save(where.joins, Joins())
        identity.load_or_create(where.key(REGISTRAR))
        identity.load_or_create(where.key(GUEST))  # last: it proves that the others were made


def publish_certificate(where: StateFolder) -> None:
    """Put the certificate where every user of this machine can read it and nobody can write."""
    durable_file.replace(where.certificate, certificate.read(where.broker_certificate), 0o644)


def _check_seeds(where: StateFolder, cluster: ClusterFile) -> None:
    """Check every identity's key, and that the scheduler's belongs to this node; else Corrupt."""
    keys = {name: identity.load(where.key(name)) for name in state_folder.IDENTITIES}
    if keys["scheduler"].public != cluster.scheduler_public_key:
        path = where.key("scheduler")
        raise Corrupt(f"{path} is not the key that {where.cluster} names", hint="Restore them")


def load_users(where: StateFolder) -> Users:
    """Return the users of a complete folder, where a missing table is damage."""
    try:
        return users.load(where.users)
    except NotFound:
        raise Corrupt(f"{where.users} is missing", hint="Restore it from a backup") from None


def _caller() -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())


def node_name() -> str:
    """Return the short name of this host, which a new node gets by default."""
    return socket.gethostname().split(".")[0].lower()[:63] or "node"


def _default_mapping() -> str:
    """Return the Unix user of the caller's jobs: the caller, but never root by default."""
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
    """Write `--root-jobs-as` into the table of users and return the table."""
    table = load_users(where)
    for name in ("admin", _caller()):
        if name in table:
            table[name] = _user(table[name].public_key, root_jobs_as, admin=True)
    users.save(where.users, table)
    return table


def _is_mapped(table: Users, options: StartOptions) -> bool:
    """True if the file says what the table has already, so that no scheduler is started again."""
    rows = [table[name] for name in ("admin", _caller()) if name in table]
    is_so = all(users.describe(row) == options.root_jobs_as for row in rows)
    return "root_jobs_as" in options.from_file and is_so


def _jobs_as(table: Users) -> str:
    caller = _caller()
    if caller not in table:
        return ""
    name = users.describe(table[caller])
    if name == caller and name != "root":
        return ""
    return f"jobs of {caller} run as {name} (--root-jobs-as changes it)"


def _any_root(table: Users) -> bool:
    """True if the jobs of some user run as root."""
    return any(map(_is_root, table.values()))


def _is_root(user: User) -> bool:
    with contextlib.suppress(StokerError):
        return users.owner("x", user).uid == 0
    return False


def settle_port(
    where: StateFolder, cluster: ClusterFile, wanted: int | None, found: dict[str, pids.ProcessId]
) -> ClusterFile:
    """Return the node with the port that its broker will have. The supervisor writes `cluster.json`
    once the broker listens there, so that a start that fails leaves no port behind."""
    if cluster.address:
        return _settled_where_hosts_know_it(cluster, wanted, found)
    if wanted is not None and not (wanted == cluster.port and BROKER in found):
        broker_port.check(wanted)  # before any process is ended
    port = wanted or cluster.port
    if BROKER in found:
        if port == cluster.port:
            return cluster
        pids.end(found.pop(BROKER), 5.0)
    if not port or not broker_port.is_usable(port):
        port = broker_port.choose(where.instance)
    where.endpoint.unlink(missing_ok=True)  # it names the port of the ended broker
    return msgspec.structs.replace(cluster, port=port)


def _settled_where_hosts_know_it(
    cluster: ClusterFile, wanted: int | None, found: dict[str, pids.ProcessId]
) -> ClusterFile:
    """Return the node with its port; Refused if `up` shall change it or another program has it."""
    if wanted not in (None, cluster.port):
        raise Refused(
            f"other hosts reach the broker at {cluster.url}",
            hint=f"`stoker cluster init --address {cluster.address} --port {wanted}` changes that",
        )
    if BROKER not in found:
        broker_port.check(cluster.port, cluster.address)
    return cluster


def move_broker(where: StateFolder, cluster: ClusterFile) -> ClusterFile:
    """Give the broker another free port; the supervisor stores it once the broker listens there."""
    cluster = msgspec.structs.replace(cluster, port=broker_port.choose(where.instance))
    write_broker_config(where, cluster, load_users(where))
    return cluster


def write_broker_config(where: StateFolder, cluster: ClusterFile, table: Users) -> None:
    """Write nats-server.conf for these keys and users."""
    durable_file.replace(where.nats / "nats-server.conf", broker_text(where, cluster, table))


def broker_text(where: StateFolder, cluster: ClusterFile, table: Users) -> bytes:
    """Return nats-server.conf of this folder; raises an error that names what is wrong."""
    settings = broker_config.BrokerSettings(
        server_name=cluster.node,
        port=cluster.port,
        store_dir=str(where.nats / "jetstream"),
        key_file=str(where.broker_key),
        certificate_file=str(where.broker_certificate),
        host=cluster.address or LOOPBACK,
        tls_only=bool(cluster.address),
        budgets=budgets.read(where.root / "config.toml"),
        spool=spool_bounds.read(where.root / "config.toml"),
        routes=server_setup.routes(where, cluster),
    )
    own, revoked = identity.load(where.key("agent")).public, revoked_keys.load(where.revoked)
    nodes = joined_nodes(where)
    servers = {each.node: each.agent for each in cluster.servers}
    keys = broker_config.BrokerKeys(
        scheduler=cluster.scheduler_public_key,
        agents=_in_force({cluster.node: own, **servers, **_keys(nodes)}, revoked),
        former=_in_force({name: row.former for name, row in nodes.items() if row.former}, revoked),
        users=_in_force({name: user.public_key for name, user in table.items()}, revoked),
        admins=frozenset(name for name, user in table.items() if user.admin),
        schedulers=_numbered(cluster.schedulers),
        copiers=server_setup.copiers(cluster, nodes),
        **_door_keys(where, cluster),
    )
    return broker_config.render(settings, keys).encode()


def _keys(nodes: dict[str, JoinedNode]) -> dict[str, str]:
    return {name: row.public_key for name, row in nodes.items()}


def _in_force(keys: dict[str, str], revoked: RevokedKeys) -> dict[str, str]:
    return {name: public for name, public in keys.items() if public not in revoked}


def joined_nodes(where: StateFolder) -> dict[str, JoinedNode]:
    """Return the nodes that joined and are still in the cluster, by name; none where no host could
    ever join."""
    if not where.key(GUEST).exists() and not where.joins.exists():
        return {}
    known = joins.load(where.joins)
    gone = joins.removed(known, departures_file.read(where.departures))
    return {name: row for name, row in known.nodes.items() if name not in gone}


def _door_keys(where: StateFolder, cluster: ClusterFile) -> dict[str, str]:
    """Return the keys of the registrar and of its guests, where hosts may join; all brokers of a
    cluster have the same accounts."""
    if not cluster.is_first and cluster.several:
        return {REGISTRAR: cluster.servers[0].registrar, GUEST: cluster.guest}
    if not cluster.takes_hosts:
        return {}
    return {name: identity.load(where.key(name)).public for name in (REGISTRAR, GUEST)}


def _numbered(public_keys: tuple[str, ...]) -> dict[int, str]:
    """Return the keys of several schedulers by number; the modules are loaded only for these."""
    if len(public_keys) < 2:
        return {}
    from stoker.mesh.log.genesis import member_number

    return {member_number(public): public for public in public_keys}


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
