# SPDX-License-Identifier: Apache-2.0
"""The state folder of one node: its paths, owner and format.

A folder is complete, private and of a known format, or it is refused without any change.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from stoker.mesh.broker import revoked_keys
from stoker.mesh.connection import context
from stoker.mesh.identity import certificate, sealed_json
from stoker.mesh.wire.cluster_server import ADMIN, ClusterServer, admin_of
from stoker.native import durable_file, folder_lock
from stoker.native.errors import Corrupt, Denied, NotFound, Refused

FORMAT = 15
"""The state format that this version reads and writes."""

MIGRATIONS: dict[int, Callable[[Path], None]] = {}
"""Older format -> function that converts a folder to the next format, in place."""

AGENT = "agent"
"""The only identity whose key a node has that joined a cluster."""
IDENTITIES = ("scheduler", AGENT, "admin")
"""Identities whose keys every other node has; those of users are `user-<name>`."""
REGISTRAR, GUEST = "registrar", "guest"
"""Identities of a node that other hosts may join: the process that takes them in, and all those
that ask it."""

SHM = Path("/dev/shm")
"""A folder in which everybody can make names and nobody removes those of others (sticky)."""

_FOLDERS = ("keys", "nats", "scheduler", "agent", "log")
_KNOWN = frozenset(
    {
        *(*_FOLDERS, "gossip", "format", "lock", "config.toml"),
        *("cluster.json", "genesis.json", "users.json", "joins.json", revoked_keys.FILE),
    }
)
CHOOSE = "Choose another folder with --state: a new one, or an empty one of mode 0700"
_JSON_BYTES_MAX = 4 << 20

T = TypeVar("T")


class ClusterFile(msgspec.Struct, frozen=True):
    """`cluster.json`: the node's identity. `port`: the last port of its broker.

    `scheduler_public_key` is the key of this folder's own scheduler. `schedulers` are the keys of
    all schedulers in the order of the roster; a cluster of one may leave it out. `brokers` are the
    addresses of the cluster's other brokers. `address` is the own one at which other hosts reach
    this host, where its broker listens; empty for a node that takes this host alone. A node that
    `joined` has neither a broker nor a scheduler, so `brokers` names all brokers, `schedulers` all
    schedulers, and `scheduler_public_key` is empty. `servers` are those of a cluster that shall
    have `wanted` of them, the first one first; until it is founded, this is the first one alone.
    An only server to which others may come stands there as well. `guest` is the public key in join
    tokens of such a cluster.
    """

    cluster: str
    node: str
    scheduler_public_key: str
    port: int = 0
    schedulers: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    address: str = ""
    joined: bool = False
    servers: tuple[ClusterServer, ...] = ()
    wanted: int = 1
    guest: str = ""

    @property
    def several(self) -> bool:
        """True on a server of a cluster that has or shall have several of them."""
        return self.wanted > 1 and not self.joined

    @property
    def waits(self) -> bool:
        """True on a server of a cluster that is not founded, because servers are missing."""
        return self.several and len(self.servers) < self.wanted

    @property
    def may_grow(self) -> bool:
        """True on an only server that others shall know as the first of several."""
        return bool(self.servers) and not self.several and not self.joined

    @property
    def is_first(self) -> bool:
        """True where the cluster was made, which has its users and join tokens."""
        return not self.joined and (not self.several or self.servers[0].node == self.node)

    @property
    def own_server(self) -> ClusterServer:
        """This host among the servers of a cluster that is founded."""
        return next(each for each in self.servers if each.node == self.node)

    @property
    def admin(self) -> str:
        """The user as whom the owner of this host acts."""
        return ADMIN if self.is_first else admin_of(self.node)

    @property
    def scheduler_keys(self) -> tuple[str, ...]:
        """The keys of all schedulers, in the order of the roster."""
        return self.schedulers or (self.scheduler_public_key,)

    @property
    def url(self) -> str:
        """The address of the broker that this host's processes and users connect to."""
        return self.brokers[0] if self.joined else context.broker_url(self.port, self.address)

    @property
    def takes_hosts(self) -> bool:
        """True where other hosts may join: `stoker cluster init` named an address."""
        return bool(self.address) and self.is_first

    @property
    def identities(self) -> tuple[str, ...]:
        """The identities whose keys this node has, apart from those of users."""
        return (AGENT,) if self.joined else IDENTITIES


class StateFolder(msgspec.Struct, frozen=True):
    """The paths of a node's files. `root` is a real, absolute path."""

    root: Path
    run: Path

    @property
    def instance(self) -> str:
        return context.instance(self.root)

    @property
    def shm(self) -> Path:
        """The folder of trace segments: the one `prepare_run` made, else the one it would make."""
        with contextlib.suppress(OSError):
            return SHM / Path((self.run / "shm").read_text()).name
        return SHM / f"stoker-{self.instance}"

    @property
    def shm_folders(self) -> list[Path]:
        """All folders of trace segments of this node, even after losses."""
        found = [path for path in SHM.glob(f"stoker-{self.instance}*") if _is_own_folder(path)]
        return sorted(found)

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def nats(self) -> Path:
        return self.root / "nats"

    @property
    def scheduler(self) -> Path:
        return self.root / "scheduler"

    @property
    def agent(self) -> Path:
        return self.root / "agent"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def users(self) -> Path:
        return self.root / "users.json"

    @property
    def cluster(self) -> Path:
        return self.root / "cluster.json"

    @property
    def joins(self) -> Path:
        """The join tokens that were made here, and the nodes that joined with them."""
        return self.root / "joins.json"

    @property
    def revoked(self) -> Path:
        """The keys that were revoked here; there is none before the first."""
        return self.root / revoked_keys.FILE

    @property
    def departures(self) -> Path:
        """The nodes that the log says were removed, as the scheduler writes them down."""
        return self.scheduler / "departures.json"

    @property
    def genesis(self) -> Path:
        """The configuration that founded the cluster, which the log's first entry states."""
        return self.root / "genesis.json"

    @property
    def pids(self) -> Path:
        return self.run / "pids.json"

    @property
    def endpoint(self) -> Path:
        return self.run / "endpoint.json"

    @property
    def certificate(self) -> Path:
        """The copy of the broker's certificate that all users can read."""
        return self.run / context.CERTIFICATE

    @property
    def broker_key(self) -> Path:
        return self.keys / "broker.key"

    @property
    def broker_certificate(self) -> Path:
        return self.keys / context.CERTIFICATE

    @property
    def broker_pins(self) -> Path:
        """The certificates of all brokers of the cluster, where there are several."""
        several = self.keys / "brokers.crt"
        return several if several.exists() else self.broker_certificate

    @property
    def route_key(self) -> Path:
        return self.keys / "route.key"

    @property
    def route_certificate(self) -> Path:
        return self.keys / "route.crt"

    @property
    def route_pins(self) -> Path:
        """The certificates by which brokers of the cluster know each other."""
        return self.keys / "routes.crt"

    def key(self, identity: str) -> Path:
        """Return the seed file of an identity: `scheduler`, `agent`, `admin` or `user-<name>`."""
        return self.keys / f"{identity}.nk"


def locate(option: str | os.PathLike[str] | None) -> StateFolder:
    """Return the node of `--state`, else of STOKER_STATE, else the default; touches nothing."""
    chosen = option or os.environ.get("STOKER_STATE") or context.default_state()
    root = Path(os.path.realpath(chosen))
    return StateFolder(root=root, run=run_folder(root))


def run_folder(root: Path) -> Path:
    """Return the folder of sockets and endpoint, which end with the node: the first of
    `context.run_folders`, where clients look, that this user may write."""
    first, *own = context.run_folders(root)
    if not own:
        return first
    runtime, temporary = own
    return runtime if os.access(runtime.parent.parent, os.W_OK | os.X_OK) else temporary


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """Turn a full disk or an unreachable folder into Refused, with the kernel's path."""
    try:
        yield
    except OSError as error:
        raise Refused(f"{error.filename or 'state folder'}: {error.strerror}") from error


def check_private(folder: Path) -> None:
    """Refuse a folder that another user owns, that is no state folder, or that others can read. The
    hint never suggests to change the mode of a foreign folder."""
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise Refused(f"{folder} is not a folder", hint=CHOOSE)
    if found.st_uid != os.geteuid():
        raise Refused(
            f"{folder} belongs to {user_name(found.st_uid)}, not to {user_name(os.geteuid())}",
            hint=f"Run as its owner. {CHOOSE}",
        )
    if strange := foreign_owner(folder):
        raise Refused(f"{folder} is not a stoker state folder: it holds {strange}", hint=CHOOSE)
    if stat.S_IMODE(found.st_mode) & 0o077:
        own = any(folder.iterdir())  # a foreign entry was refused before
        mode = stat.S_IMODE(found.st_mode)
        raise Refused(
            f"{folder} is open to others (mode {mode:04o})",
            hint=f"chmod 700 {folder}" if own else CHOOSE,
        )


@disk_errors()
def require(state: StateFolder) -> None:
    """Raise NotFound, Denied or Refused by name if this user has no node in this folder."""
    try:
        there = state.agent.is_dir()
    except PermissionError:
        raise Denied(
            f"the node in {state.root} belongs to {_owner_of(state.root)}",
            hint="Only its owner may see and set this",
        ) from None
    if not there:
        raise NotFound(f"there is no node in {state.root}", hint="stoker up")
    check_private(state.root)


def _owner_of(folder: Path) -> str:
    try:
        return user_name(folder.stat().st_uid)
    except OSError:
        return "somebody else"


def foreign_owner(folder: Path) -> str:
    """Return the name of an entry that is not stoker's; empty for a state folder and for an empty
    one."""
    if (folder / "format").is_file() and (folder / "cluster.json").is_file():
        return ""  # a later version may keep more in its folder
    names = sorted(path.name for path in folder.iterdir() if path.name not in _KNOWN)
    return next((name for name in names if not name.startswith(".new-")), "")


def user_name(uid: int) -> str:
    """Return `uid 1000 (alice)`, for messages."""
    try:
        return f"uid {uid} ({pwd.getpwuid(uid).pw_name})"
    except KeyError:
        return f"uid {uid}"


def prepare(state: StateFolder) -> None:
    """Make the folder and its subfolders, private from the first moment. Idempotent.

    A folder with foreign entries is refused, since it was named by mistake.
    """
    state.root.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        state.root.mkdir(mode=0o700)
    check_private(state.root)
    # A missing folder of a complete node was lost, and `load` names it. Lost logs do no harm.
    for name in ("log",) if is_set_up(state) else _FOLDERS:
        (state.root / name).mkdir(mode=0o700, exist_ok=True)


def is_set_up(state: StateFolder) -> bool:
    """True if a first start has named the node, even if `format` was lost since."""
    return exists(state) or state.cluster.exists()


def check_first(state: StateFolder) -> None:
    """Raise Corrupt if `format` is missing although a node has run here: a first start would make
    another node of the folder."""
    ran = [state.nats / "jetstream", state.agent / "journal"]
    evidence = next((path for path in ran if path.exists()), None)
    if evidence is not None:
        raise Corrupt(
            f"{state.root / 'format'} is missing, and a node has run here ({evidence} exists)",
            hint="Restore it from a backup",
        )


def exists(state: StateFolder) -> bool:
    """True if the setup of a node was completed here; `format` is written last."""
    return (state.root / "format").exists()


def seal_format(state: StateFolder) -> None:
    """Mark the folder complete; everything else must be on disk before."""
    durable_file.replace(state.root / "format", f"{FORMAT}\n".encode())


def check_format(state: StateFolder) -> None:
    """Refuse a newer format, migrate an older one, accept the present one."""
    path = state.root / "format"
    text = path.read_bytes()[:32].strip()
    if not text.isdigit():
        raise Corrupt(f"{path} holds {text!r}, not a number", hint="Restore it from a backup")
    found = int(text)
    if found > FORMAT:
        raise Corrupt(
            f"{state.root} has state format {found}; this stoker knows format {FORMAT}",
            hint="Use the stoker that wrote it, or another folder with --state",
        )
    for step in range(found, FORMAT):
        if step not in MIGRATIONS:
            raise Corrupt(
                f"{state.root} has state format {found}, too old for this stoker",
                hint="Let the stoker that wrote it end its jobs (stoker down), then move the"
                " folder away or name another one with --state: stoker up makes a new one",
            )
        MIGRATIONS[step](state.root)
        durable_file.replace(path, f"{step + 1}\n".encode())


def load(state: StateFolder) -> ClusterFile:
    """Read and check a complete folder; raises Corrupt or Refused and changes nothing else."""
    check_private(state.root)
    check_format(state)
    cluster = read_json(state.cluster, ClusterFile)
    if not (cluster.joined or cluster.waits):
        read_json(state.genesis, dict[str, Any])  # the scheduler reads what it says
    check_folders(state)
    for identity in cluster.identities:
        check_key(state.key(identity))
    if cluster.joined:
        certificate.pinned(state.broker_certificate)
    else:
        certificate.check_pair(state.broker_key, state.broker_certificate)
    if cluster.several:
        check_key(state.key(REGISTRAR))
        certificate.check_pair(state.route_key, state.route_certificate)
    return cluster


def load_made_here(state: StateFolder) -> ClusterFile:
    """Do the same as `load`; Refused on a host that joined a cluster, which has no users."""
    cluster = load(state)
    if not cluster.is_first:
        where = cluster.servers[0].url if cluster.several else cluster.url
        raise Refused(
            f"{cluster.node} joined a cluster that was made elsewhere ({where})",
            hint="Users and join tokens belong to the host where it was made: call this there",
        )
    return cluster


def has_joined(state: StateFolder) -> bool:
    """True if a complete folder is that of a node that joined a cluster; changes nothing else."""
    check_private(state.root)
    check_format(state)
    return read_json(state.cluster, ClusterFile).joined


def check_folders(state: StateFolder) -> None:
    """Raise Corrupt if a folder of a complete node is missing."""
    for folder in _FOLDERS:
        if not (state.root / folder).is_dir():
            raise Corrupt(f"{state.root / folder} is missing", hint="Restore it from a backup")


def check_key(path: Path) -> None:
    """Check that a seed file exists, is private and not empty; its content is checked on use."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        raise Corrupt(f"key file {path} is missing", hint="Restore it from a backup") from None
    if not stat.S_ISREG(found.st_mode) or found.st_size == 0:
        raise Corrupt(f"key file {path} is not a seed", hint="Restore it from a backup")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise Refused(f"key file {path} is readable by others", hint=f"chmod 600 {path}")


def read_json(path: Path, of: type[T]) -> T:
    """Read one JSON file as a checked record; raises Corrupt by name."""
    try:
        with path.open("rb") as file:
            data = file.read(_JSON_BYTES_MAX + 1)
        if len(data) > _JSON_BYTES_MAX:
            raise Corrupt(f"{path} is larger than {_JSON_BYTES_MAX} bytes")
        return sealed_json.decode(data, of)
    except FileNotFoundError:
        raise Corrupt(f"{path} is missing", hint="Restore it from a backup") from None
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{path} cannot be read: {error}", hint="Restore it from a backup") from None


def write_cluster(state: StateFolder, cluster: ClusterFile) -> None:
    """Replace `cluster.json`, sealed: a changed bit would make this another node."""
    durable_file.replace(state.cluster, sealed_json.encode(cluster))


def write_json(path: Path, record: Any, mode: int = 0o600) -> None:
    """Replace one JSON file in one step, indented for people."""
    durable_file.replace(
        path, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n", mode
    )


def prepare_run(state: StateFolder) -> None:
    """Make the run folder and the shared-memory folder; refuse those of other users."""
    state.run.parent.parent.mkdir(parents=True, exist_ok=True)
    _make_open(state.run.parent, state.run)
    _settle_shm(state)
    _make_open(state.shm)


def _settle_shm(state: StateFolder) -> None:
    """Choose another name if another user has the usual one, and store it while the node lives:
    running jobs have it in their environment."""
    with contextlib.suppress(FileExistsError):
        state.shm.mkdir(mode=0o755)
    if _is_own_folder(state.shm):
        return
    made = Path(tempfile.mkdtemp(prefix=f"stoker-{state.instance}-", dir=SHM))
    made.chmod(0o755)
    durable_file.replace(state.run / "shm", made.name.encode())


def _is_own_folder(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _make_open(*folders: Path) -> None:
    for folder in folders:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o755)
            folder.chmod(0o755)  # despite the umask: clients of other users read it
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            owner = user_name(found.st_uid)
            raise Refused(
                f"{folder} belongs to somebody else: {owner}",
                hint="This node has nothing in it: ask them, or root, to remove it",
            )
        if found.st_mode & 0o022:
            raise Refused(f"{folder} is writable by others", hint=f"chmod 755 {folder}")


def edit_lock(state: StateFolder) -> contextlib.AbstractContextManager[None]:
    """Lock the folder while users or keys change; waits for another editor."""
    return folder_lock.held(state.root)
