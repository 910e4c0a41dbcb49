# SPDX-License-Identifier: Apache-2.0
"""systemd units: rendered for this installation, written disabled.

A unit that stoker did not write is never replaced.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from stoker.native.errors import Refused

MARK = "# Written by `stoker install-service"
SYSTEM_FOLDER = Path("/etc/systemd/system")
NAME = "stoker.service"


@dataclass(frozen=True)
class Unit:
    """One unit file and its path."""

    path: Path
    text: str
    enable: str
    """The command that starts the unit now and at every boot."""


def unit(*, user: bool, root: Path | None) -> Unit:
    """Return the unit for this installation; packages put `root` before its path."""
    source = "stoker-user.service" if user else "stoker.service"
    text = (Path(__file__).resolve().parent / "units" / source).read_text()
    folder = _user_folder() if user else SYSTEM_FOLDER
    if root is not None:
        folder = root / folder.relative_to("/")
    enable = f"systemctl {'--user ' if user else ''}enable --now stoker"
    return Unit(folder / NAME, text.replace("@STOKER@", _program()), enable)


def install(unit: Unit) -> bool:
    """Write the unit; False if it is there already."""
    if unit.path.exists():
        present = unit.path.read_text()
        if present == unit.text:
            return False
        if not present.startswith(MARK):
            raise Refused(
                f"{unit.path} was not written by stoker", hint="Move it away, then try again"
            )
    try:
        unit.path.parent.mkdir(parents=True, exist_ok=True)
        partial = unit.path.with_name(f".{NAME}.{os.getpid()}")
        partial.write_text(unit.text)
        partial.chmod(0o644)
        partial.rename(unit.path)
    except OSError as error:
        raise Refused(
            f"{unit.path} cannot be written: {error.strerror}",
            hint="Run as root, or use --user, --root DIR or --dry-run",
        ) from None
    return True


def _user_folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base).absolute() / "systemd/user"


def _program() -> str:
    """Return the `stoker` script of this installation, escaped as in systemd.syntax(7)."""
    return str(Path(sys.prefix, "bin", "stoker")).replace("%", "%%").replace(" ", "\\x20")
