# SPDX-License-Identifier: Apache-2.0
"""The options of `stoker up`: those of the command line, and those of config.toml below them.

Invariant: nothing of a file with a fault is taken, and a message about an option names the place
that gave it.
"""

from __future__ import annotations

import os

import msgspec

from stoker.agent.state import state_folder, up_config
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.state.up_config import UpConfig


class StartOptions(msgspec.Struct, frozen=True):
    """The options of `stoker up`."""

    state: str | None = None
    foreground: bool = False
    port: int | None = None
    root_jobs_as: str | None = None
    labels: tuple[str, ...] = ()
    log_max_bytes: int | None = None
    metrics: str | None = None
    from_file: frozenset[str] = frozenset()
    """Names of options that config.toml gave, not the command line."""

    def said(self, name: str) -> str:
        """Return an option as whoever gave it knows it."""
        option = f"--{name.replace('_', '-')}"
        return f"up.{name} in config.toml" if name in self.from_file else option


def with_file(options: StartOptions, where: StateFolder) -> StartOptions:
    """Return the options with those of config.toml that the command line does not give; BadRequest
    if anything in the file is wrong. Its variables join this environment, which goes before it."""
    if where.root.exists():
        state_folder.check_private(where.root)
    if not (where.root / "config.toml").exists():
        return options
    from stoker.agent.config import kept

    file = kept.up_config(where)
    hand_on(file)
    given = {
        name: getattr(file, name)
        for name in ("port", "root_jobs_as", "log_max_bytes")
        if getattr(options, name) is None and getattr(file, name) is not None
    }
    return msgspec.structs.replace(options, **given, from_file=frozenset(given))


def hand_on(file: UpConfig) -> None:
    """Put the settings that processes read as variables here, where the environment has none."""
    for name, text in up_config.variables(file).items():
        os.environ.setdefault(name, text)
