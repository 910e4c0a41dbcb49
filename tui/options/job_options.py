# SPDX-License-Identifier: Apache-2.0
"""The request for a job, made from the flags of `run` and `submit`.

A wrong flag is refused before anything is sent. The flags are declared in
`scheduler/job_options.toml`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from stoker.native.errors import BadRequest, StokerError
from stoker.tui.options.job_flags import FIELDS, FLAGS

if TYPE_CHECKING:
    import click

    from stoker.mesh.wire.schema import JobRequest
    from stoker.scheduler.array_indexes import ArrayIndexes

NUMBERS_MAX = 15_000
"""The most indexes that are sent as numbers."""
F = TypeVar("F", bound=Callable[..., Any])
Jobs = Sequence[tuple[int | str, ...]]
"""The jobs of a flag that may be given several times."""


def job_options(command: F) -> F:
    """The options that describe a job."""
    for option in reversed(FLAGS):
        command = option(command)
    return command


def request(
    argv: Sequence[str],
    *,
    env: Sequence[str],
    env_all: bool,
    cwd: str | None,
    idempotency_key: str,
    attract: bool,
    repel: bool,
    array: ArrayIndexes,
    after: Jobs,
    after_any: Jobs,
    after_fail: Jobs,
    placement: Any,
    restart: Any,
    exclusivity: Any,
    min_run_s: int | None,
    **fields: Any,
) -> JobRequest:
    """The request for these options, with a new idempotency key unless one was given."""
    from stoker.mesh.client.client import new_key
    from stoker.mesh.wire.schema import JobRequest

    return JobRequest(
        argv=tuple(argv),
        cwd=folder(cwd),
        env=environment(env, os.environ, everything=env_all),
        company=affinity(fields["group"], attract=attract, repel=repel),
        **_array(array),
        after=tuple(chain(*after)),
        after_any=tuple(chain(*after_any)),
        after_fail=tuple(chain(*after_fail)),
        placement=placement or "",
        restart=restart or "",
        exclusivity=exclusivity or "",
        min_run_s=min_run_s or 0,
        idempotency_key=idempotency_key or new_key(),
        **{FIELDS.get(name, name): value for name, value in fields.items()},
    )


def _array(indexes: ArrayIndexes) -> dict[str, Any]:
    """The fields for an array. Older schedulers know only numbers, and take no larger array."""
    if indexes.most or indexes.size > NUMBERS_MAX:
        return {"array_list": indexes.text}
    return {"array": tuple(indexes)}


def say_in_flags(error: StokerError, params: Sequence[click.Parameter]) -> None:
    """Let a refusal name the flags of its verb where it names the fields that they set: `--cpus is
    0`. A field whose name is a plain word stays as it is."""
    flags = {FIELDS.get(str(each.name), str(each.name)): each.opts[0] for each in params}

    def named(words: str) -> str:
        return re.sub(r"\b[a-z]+(?:_[a-z]+)+\b", lambda found: flags.get(found[0], found[0]), words)

    StokerError.__init__(error, named(error.message), hint=named(error.hint))


def affinity(group: str, *, attract: bool, repel: bool) -> Literal["", "attract", "repel"]:
    """Return the wish that the flags name; one without a group, or both, are refused."""
    if attract and repel:
        raise BadRequest("--attract and --repel contradict each other")
    if (attract or repel) and not group:
        raise BadRequest(f"{'--attract' if attract else '--repel'} needs --group")
    return "attract" if attract else "repel" if repel else ""


def folder(cwd: str | None) -> str:
    """The job's folder as an absolute path, since the node has another current folder."""
    try:
        return str(Path.cwd() if cwd is None else Path(cwd).absolute())
    except FileNotFoundError:
        raise BadRequest("the current folder was removed", hint="name one with --cwd") from None


def environment(
    items: Sequence[str], here: Mapping[str, str], *, everything: bool = False
) -> dict[str, str]:
    """The job's variables: `K=V` sets one, `K` copies one that must be set here."""
    chosen = dict(here) if everything else {}
    for item in items:
        name, equals, value = item.partition("=")
        if not name:
            raise BadRequest(f"--env {item!r} names no variable")
        if not equals and name not in here:
            raise BadRequest(f"--env {name}: it is not set here")
        chosen[name] = value if equals else here[name]
    return chosen
