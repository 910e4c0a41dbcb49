# SPDX-License-Identifier: Apache-2.0
"""Contexts under names, so that one user may go from one cluster to another: files in a folder.

A context in use is `context.json`; using a named one copies it there. Owns the rules that a name is
one plain word, that a context that cannot be read is never put in use, and that a replaced file is
whole at every moment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from stoker.mesh.connection import context
from stoker.mesh.connection.context import Context, SavedContext
from stoker.native.errors import BadRequest, NotFound

NAME_CHARS_MAX = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


def folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of this user's named contexts."""
    return context.saved_path(environ).with_name("contexts")


def names(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the saved contexts."""
    return sorted(path.stem for path in folder(environ).glob("*.json"))


def load(name: str, environ: Mapping[str, str]) -> SavedContext:
    """Return a named context; NotFound names those that there are."""
    path = _path(name, environ)
    if not path.exists():
        known = ", ".join(names(environ))
        none = "None is saved; `stoker context save NAME` keeps the one in use"
        hint = f"There are: {known}" if known else none
        raise NotFound(f"no context is named {name!r}", hint=hint)
    return context.read_saved(path)


def save(name: str, found: Context, environ: Mapping[str, str]) -> Path:
    """Save a context under a name, in place of an older one; return its file."""
    path = _path(name, environ)
    made = SavedContext(
        url=found.url,
        seed_file=str(found.seed_file),
        user=found.user,
        state=str(found.state or ""),
        certificate_file=str(found.certificate),
    )
    _write(path, made)
    return path


def use(name: str, environ: Mapping[str, str]) -> SavedContext:
    """Put a named context in use for all commands that name no node."""
    chosen = load(name, environ)
    _write(context.saved_path(environ), chosen)
    return chosen


def _path(name: str, environ: Mapping[str, str]) -> Path:
    if len(name) > NAME_CHARS_MAX or not _NAME.fullmatch(name):
        raise BadRequest(
            f"{name[:80]!r} is no name of a context",
            hint=f"use at most {NAME_CHARS_MAX} letters, digits, dots, hyphens and underscores",
        )
    return folder(environ) / f"{name}.json"


def _write(path: Path, saved: SavedContext) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(saved), indent=2) + b"\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
