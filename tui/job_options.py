# SPDX-License-Identifier: Apache-2.0
"""The options of `run` and `submit`, and the request they make.

Relied on by `tui/job_commands.py`. Everything wrong with an option is said before anything is sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stoker.native.errors import BadRequest, StokerError
from stoker.tui import units

if TYPE_CHECKING:
    from stoker.mesh.schema import JobRequest

F = TypeVar("F", bound=Callable[..., Any])
PIDS_MAX = 4_194_304
"""The kernel's own limit of process ids (proc(5), pid_max)."""


class Quantity(click.ParamType[Any]):
    """An option whose text goes through a parser of `units`."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except StokerError as error:
            self.fail(str(error), param, ctx)


GPUS = Quantity("N", units.gpu_milli)
CPUS = Quantity("N", lambda value: units.milli(value, "--cpus"))
SIZE = Quantity("SIZE", lambda value: units.size_bytes(value, "--mem"))
TIME = Quantity("TIME", lambda value: units.seconds(value, "--time"))

_OPTIONS = (
    click.option("--gpus", type=GPUS, default="0", help="Devices: 2, or a part of one: 0.5, 5m."),
    click.option("--cpus", type=CPUS, help="CPUs at most: 2, 0.5."),
    click.option("--mem", type=SIZE, help="Memory at most: 512M, 4G."),
    click.option("--pids", type=click.IntRange(1, PIDS_MAX), help="Processes and threads at most."),
    click.option("--time", "time_s", type=TIME, help="Time limit: 90s, 2h, 1h30m."),
    click.option("--priority", type=click.IntRange(-100, 100), default=0, show_default=True),
    click.option("--name", default="", help="A name to find the job by."),
    click.option(
        "--trace",
        type=click.Choice(["off", "governed", "full"]),
        default="governed",
        show_default=True,
        help="How much of the job's GPU work to record.",
    ),
    click.option(
        "--env", "env", multiple=True, metavar="K[=V]", help="Set a variable, or copy it from here."
    ),
    click.option("--env-all", is_flag=True, help="Copy every variable from here; off otherwise."),
    click.option("--cwd", default=None, help="Folder to run in. [default: the current one]"),
    click.option("--idempotency-key", default="", help="The same key again is the same job."),
    click.option(
        "--stdin",
        "stdin_file",
        type=click.Path(exists=True, dir_okay=False, readable=True),
        help="Give the job this file as its input.",
    ),
)


def job_options(command: F) -> F:
    """The options that describe a job."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def request(
    argv: Sequence[str],
    *,
    gpus: int,
    cpus: int | None,
    mem: int | None,
    pids: int | None,
    time_s: float | None,
    priority: int,
    name: str,
    trace: Any,
    env: Sequence[str],
    env_all: bool,
    cwd: str | None,
    idempotency_key: str,
    stdin: bool,
) -> JobRequest:
    """The request for these options, with a key of its own when none was given."""
    from stoker.mesh.client import new_key
    from stoker.mesh.schema import JobRequest

    return JobRequest(
        argv=tuple(argv),
        cwd=folder(cwd),
        env=environment(env, os.environ, everything=env_all),
        name=name,
        gpu_milli=gpus,
        cpu_milli=cpus,
        memory_bytes=mem,
        pids=pids,
        time_limit_s=time_s,
        priority=priority,
        trace=trace,
        stdin=stdin,
        idempotency_key=idempotency_key or new_key(),
    )


def folder(cwd: str | None) -> str:
    """The job's folder, absolute: the node does not know where this shell stands."""
    try:
        return str(Path.cwd() if cwd is None else Path(cwd).absolute())
    except FileNotFoundError:
        raise BadRequest("the current folder was removed", hint="name one with --cwd") from None


def environment(
    items: Sequence[str], here: Mapping[str, str], *, everything: bool = False
) -> dict[str, str]:
    """`K=V` sets, `K` copies; a variable that is not set here cannot be copied."""
    chosen = dict(here) if everything else {}
    for item in items:
        name, equals, value = item.partition("=")
        if not name:
            raise BadRequest(f"--env {item!r} names no variable")
        if not equals and name not in here:
            raise BadRequest(f"--env {name}: it is not set here")
        chosen[name] = value if equals else here[name]
    return chosen
