# SPDX-License-Identifier: Apache-2.0
"""The checks of what was installed and built: links, Python, C modules, programs, the broker.

For `stoker doctor`. A check changes nothing on the machine.
"""

from __future__ import annotations

import importlib
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from stoker.agent.commands.doctor_check import Check, Status
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import (
    broker_setup,
)
from stoker.mesh.broker.broker_program import broker_program

FOLDERS = ("agent", "mesh", "native", "probes", "scheduler", "tui")
PROGRAMS = ("stoker-spawner", "stoker-watchdog", "stoker-restore")
MODULES = {
    "_core": "nothing can be scheduled",
    "_trace": "GPU kernels are not traced",
    "_bpf": "no eBPF probes",
    "_calls": "calls into GPU libraries are not counted",
}


def links(where: StateFolder) -> Iterator[Check]:
    """Check that src/stoker leads to the folders of a checkout."""
    package = Path(__file__).resolve().parents[2] / "src/stoker"
    if not package.is_dir():
        yield Check("install.links", "PASS", "installed from a wheel, no links needed")
        return
    broken = [name for name in FOLDERS if not (package / name).is_symlink()]
    if broken:
        yield Check(
            "install.links",
            "FAIL",
            f"{package / broken[0]} is a file and not a link: the checkout lost its links",
            "git config core.symlinks true && git checkout -- src/stoker; never from a zip archive",
        )
        return
    yield Check("install.links", "PASS", f"{len(FOLDERS)} links in {package}")


def python(where: StateFolder) -> Iterator[Check]:
    """Check the version of Python, and the headers that a build needs."""
    version = sys.version.split()[0]
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    if headers.exists():
        yield Check("install.python", "PASS", f"Python {version} with headers")
        return
    yield Check(
        "install.python",
        "WARN",
        f"Python {version} without headers: the compiled parts cannot be built again",
        "apt-get install python3-dev",
    )


def modules(where: StateFolder) -> Iterator[Check]:
    """Check that each module in C loads."""
    for name, cost in MODULES.items():
        id = f"build.{name.strip('_')}"
        try:
            importlib.import_module(f"stoker.native.{name}")
            yield Check(id, "PASS", f"stoker.native.{name} loads")
        except ImportError as error:
            status: Status = "FAIL" if name == "_core" else "WARN"
            yield Check(id, status, f"{cost}: {error}", "make build, and read build/build.log")


def programs(where: StateFolder) -> Iterator[Check]:
    """Check that the programs in C were built."""
    from stoker.native import paths

    for name in PROGRAMS:
        yield Check(f"build.{name.removeprefix('stoker-')}", "PASS", str(paths.program(name)))


def tracer(where: StateFolder) -> Iterator[Check]:
    """Check that a library that traces GPU programs was built."""
    from stoker.native import paths

    try:
        found = paths.library("libstoker-opencl.so")
        yield Check("build.tracer", "PASS", str(found))
    except FileNotFoundError as error:
        yield Check("build.tracer", "WARN", f"OpenCL kernels are not traced: {error}")


def broker(where: StateFolder) -> Iterator[Check]:
    """Check that nats-server is there, in a version that is supported."""
    version = broker_setup.check_broker()
    yield Check("broker.version", "PASS", f"nats-server {version} at {broker_program()}")
