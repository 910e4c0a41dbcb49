# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that `sim openb` and `sim power` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from stoker.tui.sim.sim_options import parse_names

nodes_argument = click.argument("nodes", type=click.Path(dir_okay=False, path_type=Path))
pods_argument = click.argument(
    "pods", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path)
)
arrivals_option = click.option(
    "--arrivals",
    type=click.FloatRange(1, 1000),
    default=130,
    help="GPU demand that arrives, in percent of the cluster's GPUs.",
)
processes_option = click.option(
    "--processes",
    type=click.IntRange(1, 256),
    help="Processes to run on. [default: one for each CPU]",
)


def seeds_option(default: str) -> Callable[[Any], Any]:
    """`--seeds`: one run for each."""
    return click.option("--seeds", default=default, help="Seeds to run: 42-51 or 1,3.")


def parse_policies(text: str) -> list[str]:
    """`default,fgd`: in that order, each once."""
    from stoker.scheduler.sim.openb_run import POLICIES

    return parse_names(text, POLICIES)
