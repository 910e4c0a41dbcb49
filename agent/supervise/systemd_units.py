# SPDX-License-Identifier: Apache-2.0
"""systemd units: rendered for this installation, written disabled.

Owns the rule that a unit somebody else wrote is not replaced.
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
    """One unit file and where it belongs."""

    path: Path
    text: str
    enable: str
    """The command that starts it now and at every boot."""


def unit(*, user: bool, root: Path | None) -> Unit:
    """The unit for this installation; `root` is put before its path, for packages."""
    source = "stoker-user.service" if user else "stoker.service"
    text = (Path(__file__).resolve().parent / "units" / source).read_text()
    folder = _user_folder() if user else SYSTEM_FOLDER
    if root is not None:
        folder = root / folder.relative_to("/")
    enable = f"systemctl {'--user ' if user else ''}enable --now stoker"
    return Unit(folder / NAME, text.replace("@STOKER@", _program()), enable)


def install(unit: Unit) -> bool:
    """Writes the unit; False when the very same is there already."""
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
    """The `stoker` script of this installation; spaces as systemd.syntax(7) wants them."""
    return str(Path(sys.prefix, "bin", "stoker")).replace("%", "%%").replace(" ", "\\x20")
