# SPDX-License-Identifier: Apache-2.0
"""The rules in force: those of config.toml, or those that `stoker power` has put in their place.

Invariant: a file that is not whole and valid is refused. The rules before it then stay in force,
and the reason is reported.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from stoker.agent.power.plan.rules import PowerRules
from stoker.mesh.identity import sealed_json
from stoker.native import durable_file
from stoker.native.errors import BadRequest, Refused

NAME = "power-rules.json"


class RulesFile:
    """`<state>/agent/power-rules.json`."""

    def __init__(self, folder: Path, configured: PowerRules) -> None:
        self._path = folder / NAME
        self._configured = configured
        self._stamp: tuple[int, int] | None = (-1, -1)
        self.rules = configured
        self.refused = ""

    def look(self) -> bool:
        """Read the file again; True if the rules changed."""
        try:
            info = self._path.stat()
            stamp: tuple[int, int] | None = (info.st_mtime_ns, info.st_ino)
        except OSError:
            stamp = None
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        before = self.rules
        try:
            self.rules = read(self._path) or self._configured
            self.refused = ""
        except BadRequest as error:
            self.refused = error.message
        return self.rules != before


def read(path: Path) -> PowerRules | None:
    """Return the file's rules, or None without a file; BadRequest if the file is not valid."""
    try:
        return sealed_json.decode(path.read_bytes(), PowerRules)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise BadRequest(f"{path}: {error}") from None


def write(folder: Path, rules: PowerRules) -> None:
    """Put these rules in force; `folder` is the agent's state folder."""
    path = folder / NAME
    try:
        durable_file.replace(path, sealed_json.encode(rules))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
