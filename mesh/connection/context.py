# SPDX-License-Identifier: Apache-2.0
"""The context of a client: which node it talks to, and with which key.

Owns the order of the places: `--state`, STOKER_STATE, `~/.config/stoker/context.json`, the default
state folder. Only the first that is named is used, so that a command never reaches another node
than the one that was meant.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from stoker.native.errors import Corrupt, Denied, NotFound, StokerError

T = TypeVar("T")
FILE_BYTES_MAX = 64 * 1024
LOOPBACK = "127.0.0.1"
CERTIFICATE = "broker.crt"
"""The name of the file with the broker's certificate."""


class SavedContext(msgspec.Struct, frozen=True):
    """`context.json`, which an administrator gives to another user of the machine."""

    url: str
    seed_file: str
    user: str
    state: str = ""
    """The node's state folder; its endpoint, if readable, names the present port."""
    certificate_file: str = ""
    """The broker's certificate, for users who cannot read the node's run folder."""


class NodeEndpoint(msgspec.Struct, frozen=True):
    """`endpoint.json`, which a running node writes."""

    url: str
    cluster: str
    node: str
    state: str
    certificate: str
    """The file of the broker's certificate, which clients pin."""


class BrokerPlace(msgspec.Struct, frozen=True):
    """The part of `cluster.json` that says where the broker of this host listens."""

    port: int = 0
    address: str = ""
    """The address at which it takes other hosts; empty for one that takes this host alone."""

    @property
    def url(self) -> str:
        return broker_url(self.port, self.address)


class Founding(msgspec.Struct, frozen=True):
    """The part of `cluster.json` that says how many servers a cluster has, and shall have."""

    wanted: int = 1
    servers: tuple[msgspec.Raw, ...] = ()

    @property
    def waits(self) -> bool:
        return len(self.servers) < self.wanted != 1


class Context(msgspec.Struct, frozen=True):
    """A node and a user. `seed_file` is read only when connecting."""

    url: str
    seed_file: Path
    user: str
    certificate: Path
    """The file of the certificate that the broker must have."""
    state: Path | None = None


def find(state: str | None = None, environ: Mapping[str, str] | None = None) -> Context:
    """Return the context of the node that a command means.

    Raises NotFound, Denied or Corrupt.
    """
    environ = os.environ if environ is None else environ
    named = state or environ.get("STOKER_STATE")
    if named:
        return _of_state(Path(named))
    saved = saved_path(environ)
    if os.path.exists(saved):  # noqa: PTH110  an unreadable home, as after sudo, has no context
        return _of_saved(saved)
    return _of_state(default_state())


def source(state: str | None, environ: Mapping[str, str]) -> str:
    """Return which of the places `find` takes, in words."""
    if state:
        return "--state"
    if environ.get("STOKER_STATE"):
        return "STOKER_STATE"
    saved = saved_path(environ)
    if os.path.exists(saved):  # noqa: PTH110  as in `find`
        return str(saved)
    return f"the default state folder, {default_state()}"


def read_saved(path: Path) -> SavedContext:
    """Return a saved context; Corrupt or Denied by name if it cannot be read."""
    return _read(path, SavedContext)


def saved_path(environ: Mapping[str, str]) -> Path:
    """Return the path of this user's `context.json`."""
    base = (
        environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or "~").expanduser() / ".config"
    )
    return Path(base) / "stoker/context.json"


def default_state() -> Path:
    """Return the default state folder of this user's node."""
    if os.geteuid() == 0:
        return Path("/var/lib/stoker")
    return Path.home() / ".local/state/stoker"


def broker_url(port: int, address: str = "") -> str:
    """Return the URL of a broker; without an address it is this host's own."""
    return f"tls://{address or LOOPBACK}:{port}"


def own_broker(state: Path) -> str:
    """Return the URL of this state folder's broker, for the node's own processes.

    The port changes if another program took it. Before the node serves, only `cluster.json` has it.
    """
    found = _endpoint(state)
    return found.url if found else _read(state / "cluster.json", BrokerPlace).url


def own_security(state: Path) -> dict[str, Any]:
    """Return the options of `nats.connect` that this state folder's broker demands.

    A broker that takes other hosts speaks TLS alone. One that is alone on its host is known by the
    owner of its socket, without TLS.
    """
    pinned = own_certificate(state)
    if pinned is None:
        return {}
    from stoker.mesh.identity.certificate import connecting  # no other caller needs TLS here

    return connecting(pinned)


def own_certificate(state: Path) -> Path | None:
    """Return the certificate of this state folder's broker; None where its owner proves it."""
    takes_others = bool(_read(state / "cluster.json", BrokerPlace).address)
    return state / "keys" / CERTIFICATE if takes_others else None


def instance(state: Path) -> str:
    """Return 8 hex digits that identify a state folder on its host."""
    return hashlib.blake2b(os.fsencode(os.path.realpath(state))).hexdigest()[:8]


def run_folders(state: Path) -> tuple[Path, ...]:
    """Return the folders that may hold the node's endpoint: the system's, then the user's."""
    name, uid = instance(state), os.geteuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    own = (Path(runtime) / "stoker" / name, Path(f"/tmp/stoker-{uid}") / name)
    return (Path("/run/stoker") / name, *(own if uid else ()))


def _none_runs(state: Path) -> str:
    """Return what is said of a state folder whose node does not run, or that has none."""
    with contextlib.suppress(OSError):
        if (state / "cluster.json").exists():
            founding = _founding(state)
            if founding.waits:
                return (
                    f"the cluster of {state} begins once its {founding.wanted} servers have joined"
                    " and are up: `stoker cluster token --server` on the first one, then `stoker"
                    " cluster join` and `stoker up` on each other"
                )
            return f"the node of {state} is down: start it with `stoker up` or pass --state"
    return f"no stoker node found in {state}: start one with `stoker up` or pass --state"


def _founding(state: Path) -> Founding:
    """Return what is said of a damaged file, too: whatever starts the node names the damage."""
    with contextlib.suppress(StokerError):
        return _read(state / "cluster.json", Founding)
    return Founding()


def _of_state(state: Path) -> Context:
    endpoint = _endpoint(state)
    if endpoint is None:
        raise NotFound(_none_runs(state))
    certificate = Path(endpoint.certificate)
    user = _login()
    keys = state / "keys"
    try:
        for identity in (f"user-{user}", "admin"):
            if (keys / f"{identity}.nk").is_file():
                name = identity.removeprefix("user-")
                return Context(endpoint.url, keys / f"{identity}.nk", name, certificate, state)
        raise NotFound(
            f"{keys} holds no key for {user}",
            hint="ask for one where the cluster was made: stoker user add NAME --key-out FILE",
        )
    except PermissionError:
        raise Denied(
            f"the node of {state} belongs to another user",
            hint=f"ask for a key: its owner runs `stoker user add {user}`",
        ) from None


def _of_saved(path: Path) -> Context:
    saved = _read(path, SavedContext)
    state = Path(saved.state) if saved.state else None
    seed_file = Path(saved.seed_file).expanduser()
    found = _endpoint(state) if state else None
    if found is not None:
        return Context(found.url, seed_file, saved.user, Path(found.certificate), state)
    if not saved.certificate_file:
        raise NotFound(
            f"{path} names no certificate of the broker, and no node of it runs here",
            hint="ask the node's owner for broker.crt and name it as certificate_file",
        )
    certificate = Path(saved.certificate_file).expanduser()
    return Context(saved.url, seed_file, saved.user, certificate, state)


def _endpoint(state: Path) -> NodeEndpoint | None:
    """Return the endpoint of this state folder's node, or None if no node has written one."""
    for folder in run_folders(state):
        path = folder / "endpoint.json"
        # Only the node's owner may name the endpoint: a planted file would collect signatures.
        if path.is_file() and path.stat().st_uid in (0, os.geteuid()):
            return _read(path, NodeEndpoint)
    return None


def _read(path: Path, kind: type[T]) -> T:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(FILE_BYTES_MAX), type=kind)
    except PermissionError:
        raise Denied(f"{path} cannot be read by this user") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"{path} is not what stoker wrote: {error}", hint="remove it") from None


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())
