# SPDX-License-Identifier: Apache-2.0
"""How a client finds a node and the key to talk to it with.

Owns the order in which places are tried: `--state`, STOKER_STATE, `~/.config/stoker/context.json`,
the default state folder; the first that is named is the only one used, so that a command never
reaches another node than the one it was told.
"""

from __future__ import annotations

import getpass
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from stoker.native.errors import Corrupt, Denied, NotFound

T = TypeVar("T")
FILE_BYTES_MAX = 64 * 1024
CERTIFICATE = "broker.crt"
"""The file of the broker's certificate, wherever it is kept."""
NO_NODE = "no stoker node found: start one with `stoker up` or pass --state"


class SavedContext(msgspec.Struct, frozen=True):
    """`context.json`: what an administrator hands to another user of the machine."""

    url: str
    seed_file: str
    user: str
    state: str = ""
    """The node's state folder; where its endpoint can be read, a new port is noticed."""
    certificate_file: str = ""
    """The broker's certificate, for who cannot look into the node's run folder."""


class NodeEndpoint(msgspec.Struct, frozen=True):
    """`endpoint.json`, written by a running node."""

    url: str
    cluster: str
    node: str
    state: str
    certificate: str
    """The broker's certificate, which whoever connects must be shown."""


class _Port(msgspec.Struct, frozen=True):
    """What of `cluster.json` is needed here."""

    port: int = 0


@dataclass(frozen=True)
class Context:
    """Where to connect and as whom. `seed_file` is read only when connecting."""

    url: str
    seed_file: Path
    user: str
    certificate: Path
    """What the broker must prove itself by."""
    state: Path | None = None


def find(state: str | None = None, environ: Mapping[str, str] | None = None) -> Context:
    """The node a command means; NotFound, Denied or Corrupt in one clear line."""
    environ = os.environ if environ is None else environ
    named = state or environ.get("STOKER_STATE")
    if named:
        return _of_state(Path(named))
    saved = saved_path(environ)
    if os.path.exists(saved):  # noqa: PTH110  a home out of reach, of whoever called sudo, has none
        return _of_saved(saved)
    return _of_state(default_state())


def saved_path(environ: Mapping[str, str]) -> Path:
    """`context.json` of this user."""
    base = (
        environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or "~").expanduser() / ".config"
    )
    return Path(base) / "stoker/context.json"


def default_state() -> Path:
    """Where a node of this user keeps its state when nothing else is said."""
    if os.geteuid() == 0:
        return Path("/var/lib/stoker")
    return Path.home() / ".local/state/stoker"


def broker_url(port: int) -> str:
    """How a node's own broker is called."""
    return f"tls://127.0.0.1:{port}"


def own_broker(state: Path) -> str:
    """Where the broker of this state folder listens now, for the node's own processes: it moves
    when a stranger took its port, and before the node serves only `cluster.json` knows it."""
    found = _endpoint(state)
    return found.url if found else broker_url(_read(state / "cluster.json", _Port).port)


def instance(state: Path) -> str:
    """8 hex digits that tell the state folders of one host apart."""
    return hashlib.blake2b(os.fsencode(os.path.realpath(state))).hexdigest()[:8]


def run_folders(state: Path) -> tuple[Path, ...]:
    """Where the node of this state folder may have its endpoint: a system's, then a user's."""
    name, uid = instance(state), os.geteuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    own = (Path(runtime) / "stoker" / name, Path(f"/tmp/stoker-{uid}") / name)
    return (Path("/run/stoker") / name, *(own if uid else ()))


def _of_state(state: Path) -> Context:
    endpoint = _endpoint(state)
    if endpoint is None:
        raise NotFound(NO_NODE)
    certificate = Path(endpoint.certificate)
    user = _login()
    keys = state / "keys"
    try:
        for identity in (f"user-{user}", "admin"):
            if (keys / f"{identity}.nk").is_file():
                name = identity.removeprefix("user-")
                return Context(endpoint.url, keys / f"{identity}.nk", name, certificate, state)
        raise NotFound(f"{keys} holds no key for {user}")
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
    """What the node of this state folder says of itself."""
    for folder in run_folders(state):
        path = folder / "endpoint.json"
        # Only the node's owner may say where it is: a planted file would collect signatures.
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
