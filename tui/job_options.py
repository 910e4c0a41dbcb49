# SPDX-License-Identifier: Apache-2.0
"""The options of `run` and `submit`, and the request they make.

Everything wrong with an option is said before anything is sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from stoker.native.errors import BadRequest, StokerError
from stoker.tui import units

if TYPE_CHECKING:
    from stoker.mesh.wire.schema import JobRequest

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
GPU_MEM = Quantity("SIZE", lambda value: units.size_bytes(value, "--gpu-mem"))
SIZE = Quantity("SIZE", lambda value: units.size_bytes(value, "--mem"))
TIME = Quantity("TIME", lambda value: units.seconds(value, "--time"))
SPAN = Quantity("TIME", lambda value: units.seconds(value, "a time"))
WHOLE_S = Quantity("TIME", lambda value: units.whole_seconds(value, "a time"))
JOB = Quantity("JOB", lambda value: units.job(value, "--after"))
ARRAY = Quantity("LIST", lambda value: units.indexes(value, "--array"))
PLACEMENTS = (
    "best",
    "fgd",
    "pack",
    "spread",
    "least-loaded",
    "random",
    "cost",
    "power",
    "thermal",
)

_OPTIONS = (
    click.option("--gpus", type=GPUS, default="0", help="GPUs: 2, or a part of one: 0.5, 5m."),
    click.option(
        "--device-kind",
        type=click.Choice(["gpu", "cpu", "any"]),
        default="gpu",
        show_default=True,
        help="What --gpus counts: cpu is an OpenCL device of the CPU (PoCL).",
    ),
    click.option(
        "--mix-vendors", is_flag=True, help="Devices of several vendors will do for one job."
    ),
    click.option("--cpus", type=CPUS, help="CPUs at most: 2, 0.5."),
    click.option("--mem", type=SIZE, help="Memory at most: 512M, 4G."),
    click.option("--pids", type=click.IntRange(1, PIDS_MAX), help="Processes and threads at most."),
    click.option("--time", "time_s", type=TIME, help="Time limit: 90s, 2h, 1h30m."),
    click.option("--priority", type=click.IntRange(-100, 100), default=0, show_default=True),
    click.option("--queue", default="", metavar="NAME", help="Queue; without it the default one."),
    click.option(
        "--placement", type=click.Choice(PLACEMENTS), default=None, help="How a node is chosen."
    ),
    click.option(
        "--gpu-model",
        "models",
        multiple=True,
        metavar="TEXT",
        help="Only devices of this model; a part of its name will do. Several: any of them.",
    ),
    click.option("--gpu-mem", type=GPU_MEM, help="Memory of each device to reserve: 16G."),
    click.option("--same-link", is_flag=True, help="Only devices that share a fast link."),
    click.option(
        "--constraint",
        "require",
        multiple=True,
        metavar="K=V",
        help="Only nodes with this label. Several: all of them.",
    ),
    click.option("--avoid", multiple=True, metavar="K=V", help="Only nodes without this label."),
    click.option("--tolerate", multiple=True, metavar="K=V", help="Nodes with this taint will do."),
    click.option("--group", default="", metavar="NAME", help="Group of --attract and --repel."),
    click.option("--attract", is_flag=True, help="Only where a job of the group runs, if any."),
    click.option("--repel", is_flag=True, help="Never where a job of the group runs."),
    click.option("--time-estimate", "estimate_s", type=SPAN, help="How long it will run: 30m."),
    click.option("--after", type=JOB, help="Start when this job has succeeded."),
    click.option("--after-any", type=JOB, help="Start when this job has ended, in any way."),
    click.option(
        "--array", type=ARRAY, default="", help="One job for each index: 0-9, 0-9:2, 1,5."
    ),
    click.option(
        "--retries", type=click.IntRange(0, 10), default=0, help="Attempts after a failed one."
    ),
    click.option("--backoff", "backoff_s", type=WHOLE_S, help="Pause before the first retry: 10s."),
    click.option("--preemptible", is_flag=True, help="May be stopped to make room; waits again."),
    click.option("--preemptor", is_flag=True, help="May have preemptible jobs stopped."),
    click.option("--min-run", "min_run_s", type=WHOLE_S, help="Not preempted before: 10m."),
    click.option("--name", default="", help="A name to find the job by."),
    click.option(
        "--trace",
        type=click.Choice(["off", "dormant", "governed", "full"]),
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


_FIELDS = {
    "gpus": "gpu_milli",
    "cpus": "cpu_milli",
    "mem": "memory_bytes",
    "time_s": "time_limit_s",
    "gpu_mem": "device_memory_bytes",
}
"""Options whose field of the request is called otherwise."""


def request(
    argv: Sequence[str],
    *,
    env: Sequence[str],
    env_all: bool,
    cwd: str | None,
    idempotency_key: str,
    attract: bool,
    repel: bool,
    after: int | str | None,
    after_any: int | str | None,
    placement: Any,
    min_run_s: int | None,
    **fields: Any,
) -> JobRequest:
    """The request for these options, with a key of its own when none was given."""
    from stoker.mesh.client.client import new_key
    from stoker.mesh.wire.schema import JobRequest

    return JobRequest(
        argv=tuple(argv),
        cwd=folder(cwd),
        env=environment(env, os.environ, everything=env_all),
        company=company(fields["group"], attract=attract, repel=repel),
        after=before(after, after_any),
        after_any=after_any is not None,
        placement=placement or "",
        min_run_s=min_run_s or 0,
        idempotency_key=idempotency_key or new_key(),
        **{_FIELDS.get(name, name): value for name, value in fields.items()},
    )


def company(group: str, *, attract: bool, repel: bool) -> Literal["", "attract", "repel"]:
    """What the group is for; a wish without a group, or both wishes, mean nothing."""
    if attract and repel:
        raise BadRequest("--attract and --repel contradict each other")
    if (attract or repel) and not group:
        raise BadRequest(f"{'--attract' if attract else '--repel'} needs --group")
    return "attract" if attract else "repel" if repel else ""


def before(after: int | str | None, after_any: int | str | None) -> int | str | None:
    """The job to wait for."""
    if after is not None and after_any is not None:
        raise BadRequest("--after and --after-any: a job waits for one other")
    return after if after is not None else after_any


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
