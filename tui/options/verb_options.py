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
plot_option = click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Write a plot to this SVG file."
)


def json_option(function: F) -> F:
    """`--json`, and `-o json` as the verbs that read have it, as the argument `as_json`."""

    @functools.wraps(function)
    def with_form(*arguments: Any, as_json: bool, form: str, **options: Any) -> Any:
        return function(*arguments, as_json=as_json or form == "json", **options)

    for option in (
        click.option("-o", "--output", "form", type=click.Choice(["table", "json"]),
                     default="table", show_default=True, help="Output form."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object: -o json."),
    ):  # fmt: skip
        with_form = option(with_form)
    return with_form  # type: ignore[return-value]


def output_or_json_option(function: F) -> F:
    """`-o` as `output_option` has it, and `--json` for `-o json`, as the argument `output`."""

    @functools.wraps(function)
    def with_form(*arguments: Any, output: str, as_json: bool, **options: Any) -> Any:
        return function(*arguments, output="json" if as_json else output, **options)

    flag = click.option("--json", "as_json", is_flag=True, help="Print one JSON object: -o json.")
    return output_option("table")(flag(with_form))  # type: ignore[return-value]


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


class OutputForm(click.Choice[str]):
    """An output form; a word that is none is told where a file is named, if the verb writes one."""

    def __init__(self, file: str = "") -> None:
        super().__init__(tables.OUTPUTS)
        self._file = file

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the form, or raise BadParameter."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            if not self._file:
                raise
            self.fail(f"{error.message} The file to write is {self._file}.", param, ctx)


def output_option(default: tables.Output, file: str = "") -> Callable[[F], F]:
    """`-o`: the output form. `file`: how a verb that writes a file has it named."""
    return click.option(
        "-o",
        "--output",
        type=OutputForm(file),
        default=default,
        show_default=True,
        help="Output form.",
    )
