# SPDX-License-Identifier: Apache-2.0
"""Click types of flags that are quantities: shares, sizes, times, jobs, lists of indexes.

Wrong text is refused with the flag's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from stoker.native.errors import StokerError


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


def _parse(kind: str, *words: str) -> Callable[[str], Any]:
    """Return a parser of `quantity_parser`, which is loaded when a flag is given."""

    def parse(value: str) -> Any:
        from stoker.tui.options import quantity_parser

        return getattr(quantity_parser, kind)(value, *words)

    return parse


def _placement(value: str) -> str:
    from stoker.scheduler.policies import placement_name  # the core's names, for this alone

    return placement_name(value)


def _queue_placement(value: str) -> str:
    from stoker.native.errors import BadRequest
    from stoker.scheduler.policies import USER

    name = _placement(value)
    if name.startswith(USER):
        raise BadRequest(
            f"a queue has no scoring function: {name}",
            hint=f"each job asks for it: stoker run --placement {name}",
        )
    return name


GPUS = Quantity("N", _parse("gpu_milli"))
CPUS = Quantity("N", _parse("milli", "--cpus"))
GPU_MEM = Quantity("SIZE", _parse("size_bytes", "--gpu-mem"))
DEVICE_MEM = Quantity("SIZE", _parse("size_bytes", "--device-mem"))
SIZE = Quantity("SIZE", _parse("size_bytes", "--mem"))
SPOOL = Quantity("SIZE", _parse("size_bytes", "--spool-output"))
TIME = Quantity("TIME", _parse("limit_seconds", "--time"))
ESTIMATE = Quantity("TIME", _parse("limit_seconds", "--time-estimate"))
SPAN = Quantity("TIME", _parse("seconds", "a time"))
WHOLE_S = Quantity("TIME", _parse("whole_seconds", "a time"))
JOBS = Quantity("JOBS", _parse("jobs", "a list of jobs"))
ARRAY = Quantity("LIST", _parse("indexes", "--array"))
IDS = Quantity("LIST", _parse("names"))
PLACEMENT = Quantity("NAME", _placement)
QUEUE_PLACEMENT = Quantity("NAME", _queue_placement)
INPUT = click.Path(exists=True, dir_okay=False, readable=True)
