# SPDX-License-Identifier: Apache-2.0
"""Options that many verbs share: the node to talk to, the output form, JSON and plots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from stoker.tui.render import tables

F = TypeVar("F", bound=Callable[..., Any])

node_option = click.option("--state", metavar="DIR", help="State folder of the node to talk to.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
plot_option = click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Write a plot to this SVG file."
)


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
