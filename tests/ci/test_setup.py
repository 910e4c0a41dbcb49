# SPDX-License-Identifier: Apache-2.0
"""`.ci/setup` on machines that lack something, made of stubs: what it says and what it leaves."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDERS = ("agent", "mesh", "native", "probes", "scheduler", "tui")
TOOLS = (
    "bash", "cat", "cut", "dirname", "env", "find", "flock", "grep", "head", "mkdir", "mv",
    "rm", "sed", "tail", "touch", "uname",
)  # fmt: skip


class Machine:
    """A checkout and a PATH that holds nothing but named tools and stubs."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.root / "src/stoker").mkdir(parents=True)
        (self.root / ".ci").mkdir()
        shutil.copy(CHECKOUT / ".ci/setup", self.root / ".ci/setup")
        shutil.copy(CHECKOUT / "pyproject.toml", self.root)
        for name in FOLDERS:
            (self.root / "src/stoker" / name).symlink_to(f"../../{name}")
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None, tool
            (self.bin / tool).symlink_to(found)
        self.stub("dpkg-query", "true")
        self.stub("id", "echo 1000")

    def stub(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f'#!{self.bin}/bash\necho "{name} $*" >>"{self.root}/calls"\n{script}\n')
        path.chmod(0o755)

    def setup(self) -> tuple[int, str]:
        """Exit code and standard error of one run."""
        done = subprocess.run(
            [self.bin / "bash", self.root / ".ci/setup"],
            env={"PATH": str(self.bin), "HOME": os.environ.get("HOME", "/")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stderr

    def calls(self, name: str) -> int:
        path = self.root / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return sum(line.startswith(f"{name} ") for line in lines)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


OLD_PYTHON = 'case "$*" in *--version*) echo Python 3.9.2 ;; *) exit 1 ;; esac'


def test_an_older_python_is_named(machine: Machine) -> None:
    machine.stub("python3", OLD_PYTHON)
    code, said = machine.setup()
    assert code == 1
    assert "Python 3.11 or newer is needed; python3 is 3.9.2" in said
    assert "PYTHON=" in said


def test_a_newer_python_beside_an_older_one_is_taken(machine: Machine) -> None:
    machine.stub("python3", OLD_PYTHON)
    machine.stub("python3.12", 'case "$*" in *venv*) exit 7 ;; esac')
    _, said = machine.setup()
    assert f"making .venv with {machine.bin}/python3.12" in said


def test_without_root_one_line_names_what_will_not_work(machine: Machine) -> None:
    machine.stub("python3", OLD_PYTHON)
    machine.stub("apt-get", "exit 100")
    _, said = machine.setup()
    line = next(line for line in said.splitlines() if "not root" in line)
    assert "libbpf-dev (no eBPF probes and no device gate)" in line
    assert "gcc (nothing can be compiled)" in line
    assert machine.calls("apt-get") == 0


def test_what_is_installed_is_not_named(machine: Machine) -> None:
    machine.stub("python3", OLD_PYTHON)
    machine.stub("dpkg-query", "printf 'installed libbpf-dev\\nremoved libck-dev\\n'")
    machine.stub("gcc", "true")
    _, said = machine.setup()
    assert "libck-dev" in said
    assert "libbpf-dev" not in said
    assert "gcc (" not in said


def test_a_package_that_cannot_be_had_is_tried_once(machine: Machine) -> None:
    machine.stub("python3", OLD_PYTHON)
    machine.stub("id", "echo 0")
    machine.stub("apt-get", 'case "$*" in *serf*) exit 100 ;; esac')
    machine.stub("apt-cache", "true")
    _, said = machine.setup()
    assert "package serf could not be installed: no gossip mesh" in said
    assert (machine.root / "build/unavailable-packages").read_text() == "serf\n"
    _, said = machine.setup()
    assert "package serf" not in said


def test_a_checkout_without_links_is_named(machine: Machine) -> None:
    link = machine.root / "src/stoker/mesh"
    link.unlink()
    link.write_text("../../mesh")
    code, said = machine.setup()
    assert code == 1
    assert "src/stoker/mesh is no link" in said


def test_a_second_run_asks_nothing(machine: Machine) -> None:
    """With .venv and build in place, no package tool and no Python is started."""
    machine.stub("python3", "true")
    venv = machine.root / ".venv/bin"
    venv.mkdir(parents=True)
    (venv / "python").symlink_to(machine.bin / "python3")
    (venv / "pip").write_text(f"#!{venv}/python\n")
    for stamp in ("build/.packages", ".venv/.installed", ".venv/.built"):
        path = machine.root / stamp
        path.parent.mkdir(exist_ok=True)
        path.touch()
    for folder in ("native", "probes"):
        (machine.root / folder).mkdir()
    (machine.root / "CMakeLists.txt").touch()
    newest = path.stat().st_mtime + 10
    for stamp in ("build/.packages", ".venv/.installed", ".venv/.built"):
        os.utime(machine.root / stamp, (newest, newest))
    assert machine.setup() == (0, "")
    assert machine.calls("dpkg-query") == 0
