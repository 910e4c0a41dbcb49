# SPDX-License-Identifier: Apache-2.0
"""States of jobs as people type them: stoker's words, or Slurm's codes, one or a list of them."""

from __future__ import annotations

from typing import Any, Final

import click

JOB_STATES: Final = (
    "pending",
    "starting",
    "running",
    "stopping",
    "succeeded",
    "failed",
    "cancelled",
    "timeout",
    "lost",
)
OF_SLURM: Final = {
    "pd": "pending",
    "cf": "starting",
    "r": "running",
    "cg": "stopping",
    "cd": "succeeded",
    "completed": "succeeded",
    "f": "failed",
    "oom": "failed",
    "ca": "cancelled",
    "to": "timeout",
    "nf": "lost",
    "node_fail": "lost",
}
"""The states that codes and words of squeue stand for."""


class JobStates(click.ParamType[tuple[str, ...]]):
    """One state or several with commas, in any case."""

    name = "state"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the form that the help shows."""
        return "STATE[,STATE]"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Return the states, or raise BadParameter that names those there are."""
        if isinstance(value, tuple):
            return value
        found = []
        for word in str(value).split(","):
            state = OF_SLURM.get(word.strip().lower(), word.strip().lower())
            if state not in JOB_STATES:
                self.fail(f"{word!r} is none of {', '.join(JOB_STATES)}", param, ctx)
            found.append(state)
        return tuple(found)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:
        """Offer the states that continue the last part of the list."""
        from click.shell_completion import CompletionItem

        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(before + comma + s) for s in JOB_STATES if s.startswith(last)]
