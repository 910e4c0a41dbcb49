# SPDX-License-Identifier: Apache-2.0
"""Golden scripts and short oracle streams against one compiled core; exit 1 at a difference.

    python -m tests.native.core.mutants.detector _core.so [--without script,script]

Run by hunt, a process for each mutant, because a mutant may crash. `--names` prints what differs
and goes on, so that hunt learns what the core itself does not pass.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from random import Random

STREAMS = 10


def use(module: str) -> None:
    """The module instead of the installed one, before anything imports it."""
    import stoker.native

    spec = spec_from_file_location("_core", module)
    assert spec and spec.loader
    core = module_from_spec(spec)
    spec.loader.exec_module(core)
    sys.modules["stoker.native._core"] = core
    stoker.native._core = core  # type: ignore[attr-defined]


def differing_scripts(without: set[str]) -> list[str]:
    from tests.scheduler.test_core_golden import GOLDEN, traced

    names = []
    for path in sorted(GOLDEN.glob("*.txt")):
        if path.stem in without:
            continue
        text = path.read_text()
        try:
            if traced(text) != text:
                names.append(path.stem)
        except Exception as error:  # whatever it is, it is not what the script says
            names.append(path.stem)
            print(f"{path.stem}: {type(error).__name__}", file=sys.stderr)
    return names


def main() -> int:
    use(sys.argv[1])
    without = set(sys.argv[3].split(",")) if sys.argv[2:3] == ["--without"] else set()
    scripts = differing_scripts(without)
    if sys.argv[2:3] == ["--names"]:
        print(",".join(scripts))
        return 0
    if scripts:
        print(f"golden script {scripts[0]}")
        return 1
    from tests.scheduler import streams
    from tests.scheduler.pair import run

    for seed in range(STREAMS):
        try:
            run(Random(seed), 500, streams.SMALL, decides=False)
        except Exception as error:  # a difference, or a refusal of what should be taken
            print(f"stream {seed}: {type(error).__name__} {str(error)[:90]}")
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
