# SPDX-License-Identifier: Apache-2.0
"""Equal commands give equal bytes by every compiler and on every machine."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.native.core.mutants.hunt import Builder
from tests.rounds import rounds

ROOT = Path(__file__).parents[3]
STEPS = "4000"
ALONE = platform.machine() != "x86_64"

BUILDS = {
    "aarch64": ("aarch64-linux-gnu-gcc", "-O2", "-static"),
    "clang-O3-v2": ("clang", "-O3", "-march=x86-64-v2"),
    "gcc-O0": ("gcc", "-O0"),
    "gcc-O3-v3": ("gcc", "-O3", "-march=x86-64-v3"),
    "clang-O0": ("clang", "-O0"),
}
"""Those of the long rounds come last: each compiles the whole core."""
SHORT = 2


def core_sources() -> list[Path]:
    """Return the sources of the library, by its own list."""
    folder = ROOT / "native" / "core"
    named = re.search(
        r"set\(STOKER_CORE_SOURCES(.*?)\)", (folder / "CMakeLists.txt").read_text(), re.S
    )
    assert named
    return [folder / name for name in named[1].split()]


HERE = ROOT / "tests" / "native" / "core"
STREAM = [HERE / name for name in ("stream.c", "digests.c")]
INCLUDES = ("-I", str(ROOT / "native"), "-I", str(HERE))


def built(compiler: tuple[str, ...], folder: Path) -> Path:
    program = folder / "digests"
    sources = core_sources() + STREAM
    objects = [str(folder / f"{source.stem}.o") for source in sources]
    compile_it = [*compiler, "-std=gnu11", *INCLUDES, "-c"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pairs = zip(sources, objects, strict=True)
        list(pool.map(lambda pair: call(*compile_it, str(pair[0]), "-o", pair[1]), pairs))
    call(*compiler, *objects, "-o", str(program))
    return program


def call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def flags() -> set[str]:
    return set(Path("/proc/cpuinfo").read_text().split())


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the output of the core that `make build` compiled."""
    program = tmp_path_factory.mktemp("cc") / "digests"
    core = Builder().folder / "native" / "core" / "libstoker_core.a"
    call("cc", "-O2", "-std=gnu11", *INCLUDES, *map(str, STREAM), str(core), "-o", str(program))
    return subprocess.run([program, "7", STEPS], check=True, capture_output=True, text=True).stdout


@pytest.mark.rounds
@pytest.mark.parametrize("name", list(BUILDS)[: rounds(SHORT, len(BUILDS))])
def test_digests_are_those_of_every_other_build(name: str, expected: str, tmp_path: Path) -> None:
    compiler, *options = BUILDS[name]
    runner = ["qemu-aarch64"] if name == "aarch64" else []
    missing = [tool for tool in (compiler, *runner) if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if ALONE and any(option.startswith("-march=x86") for option in options):
        pytest.skip("this machine is no x86-64")
    if "-march=x86-64-v3" in options and not {"avx2", "bmi2", "fma"} <= flags():
        pytest.skip("this machine has no AVX2, BMI2 and FMA")
    program = built((compiler, *options), tmp_path)
    done = subprocess.run(
        [*runner, program, "7", STEPS], check=True, capture_output=True, text=True
    )
    assert done.stdout == expected
    assert int(done.stdout.split()[-2]) > 200
