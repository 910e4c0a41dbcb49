# SPDX-License-Identifier: Apache-2.0
"""The flags of `run` and `submit`, for the command line and for the reader."""

from __future__ import annotations

import json
import re
from typing import Final

from generate.job_options import Flag, Option
from generate.text import UNSORTED, head, joined, listed

SAYS: Final = (
    "The flags of `run` and `submit`.\n\nWritten by `make generate` from"
    " scheduler/job_options.toml; change that file instead."
)
ARGUMENTS: Final = {
    "GPUS": "N", "CPUS": "N", "SIZE": "SIZE", "GPU_MEM": "SIZE",
    "DEVICE_MEM": "SIZE", "TIME": "TIME", "ESTIMATE": "TIME",
    "WHOLE_S": "TIME", "JOBS": "JOBS", "ARRAY": "LIST", "IDS": "LIST",
}  # fmt: skip
"""A table's word for the value of a flag of this type."""


def module(options: list[Option]) -> str:
    """The text of `tui/options/job_flags.py`."""
    rows = sorted(
        ((flag, option) for option in options for flag in option.flags),
        key=lambda row: row[0].place,
    )
    types = sorted({flag.given["type"] for flag, _ in rows if "type" in flag.given} - {"range"})
    before = "from stoker.tui.options.quantity import ("
    wanted = listed(before, types, ")", "")
    imports = ["from typing import Final", "", "import click", "", *wanted]
    lines = [*head(SAYS, imports, UNSORTED), "FLAGS: Final = ("]
    for flag, option in rows:
        lines += listed("click.option(", _arguments(flag, option), "),", "    ")
    lines += [")", '"""The options, in the order of --help."""', "", "FIELDS: Final = {"]
    for option in options:
        if len(option.flags) == 1 and option.flags[0].param != option.name:
            lines.append(f'    "{option.flags[0].param}": "{option.name}",')
    lines += ["}", '"""Arguments of a verb whose field of the request has another name."""']
    placements = next(f.given["choices"] for f, o in rows if o.name == "placement")
    named = [f'"{name}"' for name in placements]
    return joined([*lines, "", *listed("PLACEMENTS: Final = (", named, ")", "")])


def _arguments(flag: Flag, option: Option) -> list[str]:
    """The arguments of click.option."""
    given = flag.given
    found = [f'"{flag.name}"']
    if "also" in given:
        found.append(f'"{given["also"]}"')
    if "param" in given:
        found.append(f'"{given["param"]}"')
    if given.get("type") == "range":
        found.append(f"type=click.IntRange({option.least}, {option.most})")
    elif "type" in given:
        found.append(f"type={given['type']}")
    if "choices" in given and "type" not in given:
        found.append(f"type=click.Choice({json.dumps(given['choices'])})")
    if "default" in given:
        found.append("default=" + given["default"].replace("'", '"'))
    for key in ("is_flag", "multiple", "show_default"):
        if given.get(key):
            found.append(f"{key}=True")
    for key in ("metavar", "help"):
        if key in given:
            found.append(f"{key}={json.dumps(given[key], ensure_ascii=False)}")
    return found


def tables(page: str, options: list[Option]) -> str:
    """The page with its tables of flags written anew, between their marks."""
    for title in re.findall(r"<!-- flags: (\w+), written by make generate -->", page):
        rows = sorted(
            ((flag, option) for option in options for flag in option.flags if flag.table == title),
            key=lambda row: row[0].place,
        )
        mark = f"<!-- flags: {title}, written by make generate -->"
        table = "\n".join(["| option | |", "|---|---|", *(_row(*row) for row in rows)])
        page = re.sub(
            rf"{re.escape(mark)}\n.*?<!-- end -->",
            lambda _, new=f"{mark}\n{table}\n<!-- end -->": new,  # type: ignore[misc]
            page,
            flags=re.DOTALL,
        )
    return page


def _row(flag: Flag, option: Option) -> str:
    given = flag.given
    argument = given.get("arg") or given.get("metavar") or ARGUMENTS.get(given.get("type", ""))
    if argument is None and "choices" in given:
        argument = r"\|".join(given["choices"])
    choices = ", ".join(f"`{choice}`" for choice in given.get("choices", ()))
    doc = flag.doc.replace("{choices}", choices)
    doc = doc.replace("{least}", option.least).replace("{most}", option.most)
    return f"| `{flag.name}{f' {argument}' if argument else ''}` | {doc} |"
