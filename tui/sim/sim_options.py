# SPDX-License-Identifier: Apache-2.0
"""Options of the simulators, and the lists of names and seeds that they take.

A text that names nothing, or something unknown, is refused with the option's name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Any

import click

SEEDS_MAX = 1000


class FiniteRange(click.FloatRange):
    """A range of numbers without "nan" and "inf", which compare as if they were inside."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number.", param, ctx)
        return number


def parse_seeds(text: str) -> list[int]:
    """`42-51`, `1,4-6`: in that order, each once."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})(?:-(\d{1,18}))?\s*", part, re.ASCII)
        if not match:
            raise click.BadParameter(f"{part!r} is neither a number nor a range such as 42-51")
        found = range(int(match[1]), int(match[2] or match[1]) + 1)
        if len(seeds) + len(found) > SEEDS_MAX:
            raise click.BadParameter(f"more than {SEEDS_MAX} seeds")
        seeds += found
    if not seeds:
        raise click.BadParameter(f"{text!r} names no seed")
    return list(dict.fromkeys(seeds))


def parse_names(text: str, known: Collection[str]) -> list[str]:
    """`default,fgd`: known names in that order, each once."""
    names = list(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in known:
            raise click.BadParameter(f"{name!r} is none of {', '.join(known)}")
    return names
