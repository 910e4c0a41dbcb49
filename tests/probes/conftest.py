# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the probes' tests: a compiled workload, cgroups for jobs, attached host probes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.probes.host.host_probes import HostLimits, HostProbes
from tests.probes.groups import Groups, as_expected, cgroup2_mount, require_root

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled workload.c and pressing.c."""
    program = tmp_path_factory.mktemp("workload") / "workload"
    argv = ["cc", "-O1", "-Wall", "-Werror", "-pthread", "-o", program]
    argv += [HERE / "workload.c", HERE / "pressing.c"]
    subprocess.run(argv, check=True)
    program.parent.chmod(0o755)
    return program


@pytest.fixture
def groups(workload: Path) -> Iterator[Groups]:
    """Cgroups of this test alone, removed with what runs in them."""
    require_root()
    made = Groups(cgroup2_mount() / f"stoker-test-{os.getpid()}", workload)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def attach(groups: Groups) -> Iterator[Callable[..., HostProbes]]:
    """Attach host probes to the jobs of `groups`; every probe that can come up here must."""
    attached: list[HostProbes] = []

    def attach_now(limits: HostLimits | None = None) -> HostProbes:
        probes = HostProbes.attach(groups.jobs, limits)
        attached.append(probes)
        assert [state for state in probes.states if not as_expected(state)] == []
        return probes

    yield attach_now
    for probes in attached:
        probes.close()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of 800 blocks on disk, named to the workload; O_DIRECT must work on it."""
    path = tmp_path / "data"
    path.write_bytes(b"\1" * 800 * 4096)
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    try:
        os.close(os.open(path, os.O_RDWR | os.O_DIRECT))
    except OSError as error:
        pytest.skip(f"{tmp_path} is on a file system without O_DIRECT: {error}")
    if path.stat().st_dev >> 8 == 0:
        pytest.skip(f"{tmp_path} is on no block device")
    monkeypatch.setenv("WORKLOAD_FILE", str(path))
    return path
