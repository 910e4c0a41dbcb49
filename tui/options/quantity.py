# SPDX-License-Identifier: Apache-2.0
"""Click types of flags that are quantities: shares, sizes, times, jobs, lists of indexes.

Wrong text is refused with the flag's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from stoker.native.errors import StokerError
from stoker.tui.options import quantity_parser


class Quantity(click.ParamType[Any]):
    """An option type whose text goes through a parser of `quantity_parser`."""

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


def _placement(value: str) -> str:
    from stoker.scheduler.policies import placement_name  # the core's names, for this alone

    return placement_name(value)


GPUS = Quantity("N", quantity_parser.gpu_milli)
CPUS = Quantity("N", lambda value: quantity_parser.milli(value, "--cpus"))
GPU_MEM = Quantity("SIZE", lambda value: quantity_parser.size_bytes(value, "--gpu-mem"))
DEVICE_MEM = Quantity("SIZE", lambda value: quantity_parser.size_bytes(value, "--device-mem"))
SIZE = Quantity("SIZE", lambda value: quantity_parser.size_bytes(value, "--mem"))
SPOOL = Quantity("SIZE", lambda value: quantity_parser.size_bytes(value, "--spool-output"))
TIME = Quantity("TIME", lambda value: quantity_parser.limit_seconds(value, "--time"))
ESTIMATE = Quantity("TIME", lambda value: quantity_parser.limit_seconds(value, "--time-estimate"))
SPAN = Quantity("TIME", lambda value: quantity_parser.seconds(value, "a time"))
WHOLE_S = Quantity("TIME", lambda value: quantity_parser.whole_seconds(value, "a time"))
JOBS = Quantity("JOBS", lambda value: quantity_parser.jobs(value, "a list of jobs"))
ARRAY = Quantity("LIST", lambda value: quantity_parser.indexes(value, "--array"))
IDS = Quantity("LIST", quantity_parser.names)
PLACEMENT = Quantity("NAME", _placement)
INPUT = click.Path(exists=True, dir_okay=False, readable=True)
