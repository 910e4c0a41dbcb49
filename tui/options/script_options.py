# SPDX-License-Identifier: Apache-2.0
"""Options of a job that stand in its script: `#STOKER` lines, and the common ones of `#SBATCH`.

Pure but for `read`. Owns the meaning of Slurm's options here: each is the same flag of stoker by
another name, or is refused by its name with what to do.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from stoker.native.errors import BadRequest

HEAD_BYTES = 64 * 1024
"""Directives stand within so much of the beginning of a script, before its first command."""
Flags = list[str]


class Directive(NamedTuple):
    """One line of options: its place, as messages name it, and the flags that it stands for."""

    where: str
    flags: Flags


def read(program: str) -> list[Directive]:
    """Return a script's directives; none where the program is no script."""
    try:
        with Path(program).open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return []
    if not head.startswith(b"#!"):
        return []
    return directives(program, head.decode(errors="replace"))


def directives(name: str, head: str) -> list[Directive]:
    """Return the directives before the first command; BadRequest names the line."""
    found: list[Directive] = []
    seen: dict[str, str] = {}
    for number, word, rest in _directives(head):
        try:
            words = shlex.split(rest, comments=True)
            flags = words if word == "#STOKER" else list(_slurm(words, seen))
            found.append(Directive(f"{name}:{number}: {word}", flags))
            _check_shares(seen)
        except (BadRequest, ValueError) as error:
            hint = error.hint if isinstance(error, BadRequest) else ""
            said = error.message if isinstance(error, BadRequest) else str(error)
            raise BadRequest(f"{name}:{number}: {word} {said}", hint=hint) from None
    return found


def _directives(head: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, word, the rest) of each directive."""
    for number, line in enumerate(head.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            return
        word, _, rest = line.partition(" ")
        if word in ("#STOKER", "#SBATCH"):
            yield number, word, rest


def _check_shares(seen: dict[str, str]) -> None:
    """Refuse what Slurm counts for a job or a node and stoker for each task, where these differ."""
    several = next((name for name in _SEVERAL if seen.get(name, "1") != "1"), "")
    whole = next((name for name in _WHOLE if name in seen), "")
    if several and whole:
        raise BadRequest(
            f"{whole} is not taken with {several}: Slurm counts it for a whole job or node",
            hint=f"say {_WHOLE[whole]}, which counts for each task, in a line of #STOKER",
        )


def _slurm(words: list[str], seen: dict[str, str]) -> Iterator[str]:
    """Yield the flags of one line of Slurm's options (`--name=VALUE`, `--name VALUE`, `-n VALUE`,
    `-nVALUE`), and keep in `seen` what was said."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        found = re.fullmatch(r"(--[a-z-]+)(?:=(.*))?|(-[A-Za-z])(.+)?", word, re.DOTALL)
        if found is None:
            raise BadRequest(f"{word!r} is no option")
        name, value = found[1] or found[3], found[2] if found[1] else found[4]
        name = _SHORT.get(name, name)
        if name in _REFUSED:
            raise BadRequest(f"{name} is not taken", hint=_REFUSED[name])
        if name in _PLAIN:
            yield from _PLAIN[name]
            continue
        if name not in _TAKEN:
            raise BadRequest(f"{name} is not taken", hint=f"stoker takes {', '.join(_TAKEN)}")
        if value is None and not rest:
            raise BadRequest(f"{name} needs a value")
        seen[name] = rest.pop(0) if value is None else value
        yield from _TAKEN[name](seen[name])


def _as(flag: str) -> Callable[[str], Flags]:
    return lambda value: [flag, value]


def _time(value: str) -> Flags:
    """Minutes, where it is one number, as Slurm has it."""
    return ["--time", f"{value}m" if value.isdigit() else value]


def _memory(value: str) -> Flags:
    """MiB, where it has no unit, as Slurm has it."""
    return ["--mem", f"{value}M" if value.isdigit() else value]


def _gres(value: str) -> Flags:
    """`gpu`, `gpu:2` or `gpu:a100:2`."""
    kind, *parts = value.split(":")
    count = parts.pop() if parts and parts[-1].isdigit() else "1"
    if kind != "gpu" or len(parts) > 1:
        raise BadRequest(f"--gres {value!r} is not taken", hint="gpu, gpu:N and gpu:MODEL:N are")
    return ["--gpus", count, *(["--gpu-model", parts[0]] if parts else [])]


def _gpus(value: str) -> Flags:
    """`2` or `a100:2`, as in --gres."""
    return _gres(f"gpu:{value}")


def _after(value: str) -> Flags:
    """`afterok:7:9`, and the other kinds of Slurm that stoker has, with commas between them. The
    number of an array means all of its jobs."""
    found: Flags = []
    for part in value.split(","):
        kind, *jobs = part.split(":")
        flag = _AFTER.get(kind)
        if flag is None or not jobs:
            raise BadRequest(
                f"--dependency {part!r} is not taken", hint=f"{', '.join(_AFTER)} are, with jobs"
            )
        found += [flag, ",".join(f"{job}-" if job.isdigit() else job for job in jobs)]
    return found


def _environment(value: str) -> Flags:
    """`ALL`, `NONE`, and names with or without a value."""
    names = [each for each in value.split(",") if each not in ("ALL", "NONE")]
    every = ["--env-all"] if "ALL" in value.split(",") else []
    return every + [word for name in names for word in ("--env", name)]


_SHORT = {
    "-J": "--job-name", "-t": "--time", "-c": "--cpus-per-task", "-n": "--ntasks", "-N": "--nodes",
    "-p": "--partition", "-a": "--array", "-d": "--dependency", "-D": "--chdir", "-G": "--gpus",
    "-C": "--constraint", "-o": "--output", "-e": "--error",
}  # fmt: skip
_TAKEN: dict[str, Callable[[str], Flags]] = {
    "--job-name": _as("--name"),
    "--time": _time,
    "--mem": _memory,
    "--cpus-per-task": _as("--cpus"),
    "--ntasks": _as("--tasks"),
    "--ntasks-per-node": _as("--tasks-per-node"),
    "--nodes": _as("--nodes"),
    "--gres": _gres,
    "--gpus": _gpus,
    "--gpus-per-task": _gpus,
    "--partition": _as("--queue"),
    "--array": _as("--array"),
    "--dependency": _after,
    "--chdir": _as("--cwd"),
    "--export": _environment,
}
"""Slurm's options, and the flags that they are here."""
_PLAIN: dict[str, Flags] = {
    "--requeue": ["--restart", "on-node-loss"],
    "--no-requeue": ["--restart", "never"],
}
_AFTER = {"afterok": "--after", "afterany": "--after-any", "afternotok": "--after-fail"}
_SEVERAL = ("--ntasks", "--nodes", "--ntasks-per-node")
_WHOLE = {"--gpus": "--gpus", "--gres": "--gpus", "--mem": "--mem"}
"""Options of Slurm for a whole job or node, and the flags for each task."""
_LOGS = "stoker keeps what a job writes: stoker logs JOB"
_REFUSED = {
    "--output": _LOGS,
    "--error": _LOGS,
    "--constraint": "say --node-label K=V, or a device's --gpu-model, in a line of #STOKER",
    "--gpus-per-node": "say --gpus, which counts for each task, in a line of #STOKER",
    "--mem-per-cpu": "say --mem, the memory of each task",
    "--account": "a user's quota is that of the queue: --partition",
    "--qos": "say --priority or --preemptible in a line of #STOKER",
}
"""Options of Slurm that mean something else here, and what to say instead."""
