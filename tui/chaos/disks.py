# SPDX-License-Identifier: Apache-2.0
"""A small disk of its own for each host, so that it can be full while the machine's is not.

A disk is an ext4 image in a loop device, in a mount namespace that only this run sees. Owns that
the disks are gone at the end; if this process is killed, the kernel takes them with its namespace.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from stoker.native.errors import NotSupported, Unavailable
from stoker.tui.demo.network_hosts import Host

DISK_BYTES = 512 << 20
MKFS = "mkfs.ext4"
BALLAST = "ballast"
"""The file that fills a disk, beside the state folder."""
CHUNK = bytes(1 << 20)
RUN_S = 60.0


@contextlib.contextmanager
def own_disks(hosts: Sequence[Host], folder: Path) -> Iterator[list[Host]]:
    """Yield the hosts, their state folders on disks of their own, which are made in `folder`."""
    if shutil.which(MKFS) is None:
        raise NotSupported(f"there is no `{MKFS}` here", hint="install the package e2fsprogs")
    mounted: list[Path] = []
    try:
        for host in hosts:
            place = folder / f"{host.name}-disk"
            _make(place)
            mounted.append(place)
        yield [
            dataclasses.replace(host, state=place / "state")
            for host, place in zip(hosts, mounted, strict=True)
        ]
    finally:
        for place in reversed(mounted):
            _run("umount", "--lazy", str(place))


def fill(host: Host) -> None:
    """Leave not one byte on the host's disk."""
    with (host.state.parent / BALLAST).open("ab", buffering=0) as file:
        for size in (len(CHUNK), 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(CHUNK[:size]):
                    pass


def empty(host: Host) -> None:
    """Undo `fill`."""
    (host.state.parent / BALLAST).unlink(missing_ok=True)


def _make(place: Path) -> None:
    image = place.with_suffix(".ext4")
    with image.open("wb") as file:
        os.truncate(file.fileno(), DISK_BYTES)
    _run(MKFS, "-q", str(image))
    place.mkdir()
    _run("mount", "-o", "loop", str(image), str(place))
    place.chmod(0o711)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    if done.returncode:
        raise Unavailable(f"`{' '.join(command)}`: {done.stderr.strip()}")
