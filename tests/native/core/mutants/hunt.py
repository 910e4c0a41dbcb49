# SPDX-License-Identifier: Apache-2.0
"""Builds each mutant of the core and has the detector look at it: every one must be caught.

    python -m tests.native.core.mutants.hunt [NAME ...]        (make mutants)

The core is the one that `make build` compiled; a mutant costs one file, one link and one detector
run, all in build/mutants.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.native.core.mutants.table import MUTANTS, Mutant

ROOT = Path(__file__).parents[4]
MADE = ROOT / "build" / "mutants"
SECONDS = 120
"""A mutant that hangs is caught."""


def call(*command: str, folder: Path = ROOT) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)[:200]}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _age(path: Path) -> float:
    return -path.stat().st_mtime


class Builder:
    """The newest build of the core, and variants of it."""

    def __init__(self) -> None:
        archives = sorted(ROOT.glob("build/cp*/native/core/libstoker_core.a"), key=_age)
        if not archives:
            raise RuntimeError("the core is not built: run `make build`")
        self.folder = archives[0].parents[2]
        compiled = json.loads((self.folder / "compile_commands.json").read_text())
        objects = "CMakeFiles/stoker_core.dir/"
        self.commands = {
            Path(entry["file"]).name: entry for entry in compiled if objects in entry["command"]
        }
        lines = call("ninja", "-C", str(self.folder), "-t", "commands", "_core").splitlines()
        (self.link,) = [line for line in lines if " -shared " in line]
        self.plain = next((self.folder / "native" / "core").glob("_core*.so"))

    def build(self, mutant: Mutant) -> Path:
        """Compile the module with this fault."""
        text = (ROOT / "native" / "core" / mutant.file).read_text()
        if text.count(mutant.before) != 1:
            raise ValueError(f"{mutant.name}: its text is not in {mutant.file} exactly once")
        folder = MADE / mutant.name
        folder.mkdir(parents=True, exist_ok=True)
        source = folder / Path(mutant.file).name
        source.write_text(text.replace(mutant.before, mutant.after))
        entry = self.commands[source.name]
        words = shlex.split(entry["command"])
        words[words.index("-o") + 1] = str(folder / f"{source.name}.o")
        words[words.index("-c") + 1] = str(source)
        call(*words, "-Wno-error", folder=self.folder)
        return self.linked(folder / f"{source.name}.o", folder)

    def linked(self, compiled: Path, folder: Path) -> Path:
        archive = folder / "core.a"
        shutil.copy(self.folder / "native" / "core" / "libstoker_core.a", archive)
        call("ar", "r", str(archive), str(compiled))
        module = folder / self.plain.name
        link = self.link.replace("native/core/libstoker_core.a", str(archive))
        link = link.replace(f"-o native/core/{self.plain.name}", f"-o {module}")
        call("sh", "-c", link, folder=self.folder)
        return module


def detect(module: Path, *options: str) -> str:
    """Return what noticed the fault, or an empty string."""
    command = [sys.executable, "-m", "tests.native.core.mutants.detector", str(module), *options]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return "a hang"
    if done.returncode < 0:
        return f"signal {-done.returncode}"
    if done.returncode and not done.stdout.strip():
        return done.stderr.strip().splitlines()[-1]
    return done.stdout.strip()


def hunt(names: set[str], *, look_at_plain: bool = True) -> list[str]:
    """Return the names of mutants that nothing noticed; empty `names` tries all.

    Without `look_at_plain` the core itself is taken to be free of faults, as other tests show.
    """
    builder = Builder()
    known = detect(builder.plain, "--names")
    free = detect(builder.plain, "--without", known) if look_at_plain else ""
    if free:
        raise RuntimeError(f"the core itself is caught: {free}")
    wanted = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda mutant: detect(builder.build(mutant), "--without", known), wanted)
        escaped = []
        for mutant, caught in zip(wanted, found, strict=True):
            print(f"{mutant.name:16} {caught or 'ESCAPED: ' + mutant.why}", flush=True)
            if not caught:
                escaped.append(mutant.name)
    return escaped


if __name__ == "__main__":
    raise SystemExit(len(hunt(set(sys.argv[1:]))))
