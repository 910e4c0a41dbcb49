# SPDX-License-Identifier: Apache-2.0
"""The options of a job in the public messages: `JobRequest`, `Spec`, and what turns one into
another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from generate.job_options import Option
from generate.text import docstring, head, joined

SAYS: Final = (
    "The options of a job in the public messages.\n\nWritten by `make generate` from"
    " scheduler/job_options.toml; change that file instead."
)
REQUEST: Final = (
    "`job.submit`. Fields mean what `scheduler.nouns.JobSpec` says; argv[0] is sought in PATH."
)
VIEW: Final = (
    "A job as it was requested. Only `job.get` shows `env`; `short` says that a list cut argv."
)
FIRST_OPTIONAL: Final = "short"
"""In the view this field and those behind it have a default: they came later than the others."""
AFTERS: Final = ("after", "after_any", "after_fail")
"""Options that name jobs, which a request may do by other words than their numbers."""
MADE: Final = ("argv", "env", "short", "queue", "spool_output_bytes")
"""Fields of the view that are not those of the spec as they are."""


def module(options: list[Option], folder: str) -> str:
    """The text of `job_request.py`; `folder` has the other messages."""
    package = "stoker." + folder.replace("/", ".")
    imports = [
        "from typing import Literal, NamedTuple",
        "",
        "import msgspec",
        "",
        f"from {package}.schema_cluster import Int, Message, Part",
        f"from {package}.schema_trace import JobRef",
        "from stoker.scheduler.nouns import JobSpec, TraceMode",
    ]
    lines = [*head(SAYS, imports), "", "class JobRequest(Message, frozen=True):"]
    lines += [*docstring(REQUEST, "    "), ""]
    for option in options:
        if option.request:
            default = f" = {option.default}" if option.default else ""
            default = default.replace("{}", "msgspec.field(default_factory=dict)")
            lines.append(f"    {option.name}: {option.request}{default}")
            lines += docstring(option.says, "    ")
    return joined([*lines, *_view(options), *_spec(options), *_shown(options)])


def _view(options: list[Option]) -> Iterator[str]:
    yield from ("", "", "class Spec(Part, frozen=True):", *docstring(VIEW, "    "), "")
    later = False
    for option in options:
        later = later or option.name == FIRST_OPTIONAL
        if option.view:
            yield f"    {option.name}: {option.view}" + (f" = {option.default}" if later else "")


def _spec(options: list[Option]) -> Iterator[str]:
    yield from ("", "", "class Afters(NamedTuple):")
    yield '    """The numbers of the jobs that a request names, by option."""'
    yield ""
    yield from (f"    {name}: tuple[int, ...] = ()" for name in AFTERS)
    yield from ("", "", "def job_spec(request: JobRequest, afters: Afters) -> JobSpec:")
    yield '    """The spec of a request, with the numbers of the jobs that it names."""'
    yield "    return JobSpec("
    for option in options:
        if option.in_log and option.request:
            value = f"{'afters' if option.name in AFTERS else 'request'}.{option.name}"
            yield f"        {option.name}={value},"
    yield "    )"


def _shown(options: list[Option]) -> Iterator[str]:
    given = {option.name: option.view for option in options if option.name in MADE}
    yield from ("", "", "def shown_spec(", "    spec: JobSpec,", "    *,")
    yield from (f"    {name}: {given[name]}," for name in MADE)
    yield ") -> Spec:"
    yield '    """The spec for its user; the caller says what is not shown as it is."""'
    yield "    return Spec("
    for option in options:
        if option.view:
            value = option.name if option.name in MADE else f"spec.{option.name}"
            yield f"        {option.name}={value},"
    yield "    )"
