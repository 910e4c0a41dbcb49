# SPDX-License-Identifier: Apache-2.0
"""Paths of the built programs, libraries and BPF objects; the only place that knows them.

Paths are absolute and checked.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

_spec = find_spec("stoker.native._core")  # found, not loaded: the supervisor stays small

ROOT = Path(_spec.origin if _spec and _spec.origin else __file__).resolve().parent
"""The installed `stoker/native` folder: extension modules, `bin/` and `lib/`."""


class NotBuilt(FileNotFoundError):
    """A compiled part is missing from this installation."""


def program(name: str) -> Path:
    """Absolute path of a compiled program, e.g. `stoker-spawner`; raises NotBuilt by name."""
    return _existing(ROOT / "bin" / name)


def library(name: str) -> Path:
    """Absolute path of a shared library or BPF object, e.g. `libstoker-opencl.so`."""
    return _existing(ROOT / "lib" / name)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise NotBuilt(f"{path.name} was not built: run `make build`, read its warnings ({path})")
    return path
