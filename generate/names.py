# SPDX-License-Identifier: Apache-2.0
"""`scheduler/wire_names.py` from a header: limits, kinds of commands, enums, flags."""

from __future__ import annotations

from typing import Final

from generate.header import Constant, Header
from generate.text import docstring, head, joined, listed, sentence

CLASSES: Final = {
    "placement": "Placement", "order": "Order", "property": "Property", "relation": "Relation",
    "measure": "Measure",
}  # fmt: skip
"""Enum of the header -> its class."""
LITERALS: Final = {"state": "JobState", "placement": "Wanted", "order": "QueueOrder"}
"""Enum of the header -> the type of its names in messages."""

DIGEST: Final = "The layout that this is for; the compiled core has the same."


def module(header: Header, digest: str) -> str:
    """The text of `scheduler/wire_names.py`."""
    imports = ["from enum import IntEnum, IntFlag", "from typing import Final, Literal"]
    says = (
        "The numbers and names of the core's records."
        "\n\nWritten by `make generate` from native/core/wire.h; change that file instead. Numbers"
        " are stored in the log, so they are only ever added."
    )
    lines = head(says, imports)
    lines += [f'DIGEST: Final = "{digest}"', *docstring(DIGEST, "")]
    for constant in header.constants.values():
        if not (constant.group and _is_flag(constant)):
            lines += _constant(constant)
    lines += ["", "# Kinds of commands."]
    lines += [f"{kind.name}: Final = {kind.value}" for kind in header.enums["kind"]]
    for name, title in CLASSES.items():
        names = short(header.enums[name])
        lines += _class(title, "IntEnum", header.docs[name], names)
    for group in dict.fromkeys(c.group for c in header.constants.values() if c.group):
        found = [c for c in header.constants.values() if c.group == group and _is_flag(c)]
        lines += _class(group, "IntFlag", header.docs[group], short(found))
    for name, title in LITERALS.items():
        lines += ["", "", *_literal(title, short(header.enums[name]), header.docs[name])]
    states = [f'"{word(c.name)}"' for c in header.enums["state"]]
    lines += listed("STATES: Final[tuple[JobState, ...]] = (", states, ")", "")
    lines += docstring("`STATES[code - 1]` is the state of a code of the core.", "")
    return joined(lines)


def short(constants: list[Constant]) -> list[Constant]:
    """Return the constants without the words that all of their names begin with."""
    start = constants[0].name.split("_")[0] + "_"
    if not all(c.name.startswith(start) for c in constants):
        return constants
    return [Constant(c.name.removeprefix(start), c.value, c.doc, c.group) for c in constants]


def word(name: str) -> str:
    """A name as messages spell it."""
    return name.lower().replace("_", "-")


def _constant(constant: Constant) -> list[str]:
    value = f"{constant.value:_}" if constant.value < 1 << 32 else f"{constant.value:#x}"
    lines = [f"{constant.name}: Final = {value}"]
    return lines + (docstring(sentence(constant.doc), "") if constant.doc else [])


def _is_flag(constant: Constant) -> bool:
    """True for one bit; masks of several bits and limits are none."""
    return constant.value & (constant.value - 1) == 0 and not constant.name.endswith("_MAX")


def _class(title: str, base: str, says: str, names: list[Constant]) -> list[str]:
    lines = ["", "", f"class {title}({base}):", *docstring(sentence(says), "    "), ""]
    for name in names:
        note = f"  # {name.doc}" if name.doc else ""
        lines.append(f"    {name.name} = {name.value}{note}")
    return lines


def _literal(title: str, names: list[Constant], says: str) -> list[str]:
    lines = [f"{title} = Literal["]
    for name in names:
        spelled = "" if name.name == "QUEUE" else word(name.name)
        note = f"  # {name.doc}" if name.doc else ""
        lines.append(f'    "{spelled}",{note}')
    return [*lines, "]", *docstring(sentence(says), "")]
