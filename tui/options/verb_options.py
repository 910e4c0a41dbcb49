# SPDX-License-Identifier: Apache-2.0
"""Options that many verbs share: the node to talk to, the output form, JSON and plots."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stoker.tui.render import tables

if TYPE_CHECKING:
    from stoker.mesh.client.read_choice import ReadChoice

F = TypeVar("F", bound=Callable[..., Any])

node_option = click.option("--state", metavar="DIR", help="State folder of the node to talk to.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
plot_option = click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Write a plot to this SVG file."
)


def read_options(function: F) -> F:
    """`--at` and `--stale`: where to read, as the argument `reads`."""

    @functools.wraps(function)
    def with_choice(*arguments: Any, at: str, stale: bool, **options: Any) -> Any:
        return function(*arguments, reads=_choice(at, stale=stale), **options)

    for option in (
        click.option("--stale", is_flag=True, help="Show at once what a scheduler has."),
        click.option("--at", default="", metavar="ID", help="Scheduler to read at, or `any`."),
    ):
        with_choice = option(with_choice)
    return with_choice  # type: ignore[return-value]


def _choice(at: str, *, stale: bool) -> ReadChoice:
    from stoker.mesh.client.read_choice import ReadChoice
    from stoker.mesh.wire import subjects

    return ReadChoice(subjects.check_at(at) if at else "", stale)


def output_option(default: tables.Output) -> Callable[[F], F]:
    """`-o`: the output form."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(tables.OUTPUTS),
        default=default,
        show_default=True,
        help="Output form.",
    )
