# SPDX-License-Identifier: Apache-2.0
"""The address of the metrics page and its readers, from config.toml and from `stoker up --metrics`.

What `up` was told is kept and goes before config.toml. An invalid address is refused at the start
by name.
"""

from __future__ import annotations

import contextlib
import ipaddress
import pwd
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.mesh.identity import sealed_json
from stoker.native import durable_file
from stoker.native.errors import BadRequest
from stoker.native.setting import mark

OFF = "off"
DEFAULT = "127.0.0.1:9400"
"""The port that dcgm-exporter uses, so that existing scrape configurations find it."""
READERS_MAX = 16
ALL = "*"
"""The reader that stands for whoever can connect."""


class MetricsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[metrics]` of config.toml."""

    listen: Annotated[str, mark("--metrics")] = DEFAULT
    """`address:port`, a port of loopback, or "off"; port 0: one that is free."""
    readers: tuple[str, ...] = ()
    """Users of this machine who see the series of all users' jobs, beside root and the node's own
    user; "*": everybody who can connect, other hosts included."""


class Listener(NamedTuple):
    """An address at which the page is served."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class GivenListener(msgspec.Struct, frozen=True):
    """`metrics.json`: what `up --metrics` was told."""

    listen: str


def of_node(config: MetricsConfig, where: StateFolder) -> Listener | None:
    """Return where this node serves its page; None: nowhere. BadRequest if that is no address."""
    path = file(where)
    given = state_folder.read_json(path, GivenListener).listen if path.exists() else ""
    return parse(given or config.listen)


def parse(text: str) -> Listener | None:
    """Return the address that a text names; None for "off"."""
    if text == OFF:
        return None
    host, colon, port = text.rpartition(":")
    host = (host if colon else "127.0.0.1").removeprefix("[").removesuffix("]")
    if not (port.isascii() and port.isdecimal() and int(port) <= 65535):
        raise BadRequest(f"metrics address {text!r} has no port: say ADDRESS:PORT, PORT or off")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise BadRequest(
            f"metrics address {text!r} begins with no IP address: say ADDRESS:PORT, PORT or off"
        ) from None
    return Listener(host, int(port))


def check(config: MetricsConfig) -> None:
    """Raise BadRequest if the address is none or there are too many readers."""
    parse(config.listen)
    if len(config.readers) > READERS_MAX:
        raise BadRequest(f"metrics.readers has more than {READERS_MAX} entries")


def reader_ids(config: MetricsConfig) -> frozenset[int]:
    """Return the user ids of the readers; a name that this machine does not know has none."""
    found = set()
    for name in config.readers:
        with contextlib.suppress(KeyError):
            found.add(pwd.getpwnam(name).pw_uid)
    return frozenset(found)


def keep(text: str, where: StateFolder) -> None:
    """Store what `up --metrics` was told; an empty text leaves it to config.toml again."""
    if text:
        parse(text)
        durable_file.replace(file(where), sealed_json.encode(GivenListener(text)))
    else:
        file(where).unlink(missing_ok=True)


def file(where: StateFolder) -> Path:
    """Return the path of `metrics.json` in the state folder."""
    return where.agent / "metrics.json"


class Serving(msgspec.Struct, frozen=True):
    """`metrics.json` of the run folder: where the agent serves its page, or why it does not."""

    address: str = ""
    why: str = ""


def serving(where: StateFolder) -> Serving | None:
    """Return what the running agent says of its page; None if it says nothing."""
    try:
        return msgspec.json.decode((where.run / "metrics.json").read_bytes(), type=Serving)
    except (OSError, msgspec.MsgspecError):
        return None


def tell(where: StateFolder, told: Serving) -> None:
    """Tell other processes of this machine where the page is."""
    state_folder.write_json(where.run / "metrics.json", told, 0o644)
