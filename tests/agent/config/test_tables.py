# SPDX-License-Identifier: Apache-2.0
"""The tables of config.toml: every setting is described, and those of `up` are its options.

STOKER_GOLDEN=rewrite writes the table of the operator's page anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_origin

import msgspec

from stoker.agent.commands.node_commands import up_command
from stoker.agent.config import template
from stoker.agent.config.tables import CHECKS, TABLES, Field, fields, struct_in
from stoker.native import setting
from stoker.native.setting import bare

PAGE = Path(__file__).resolve().parents[3] / "docs/operator/config.md"
OF_ONE_CALL = {"--state", "--foreground", "--beside"}
"""Options of `up` that say how it is called, and nothing of the node."""


def declared(prefix: str, annotation: Any) -> Iterator[tuple[str, Field]]:
    struct, kind = struct_in(annotation), get_origin(bare(annotation))
    assert struct is not None
    name = {list: f"[[{prefix}]]", dict: f'{prefix}."NAME"'}.get(kind, prefix)
    for field in fields(struct):
        if struct_in(field.annotation) is None:
            yield f"{name}.{field.name}", field
        else:
            yield from declared(f"{name}.{field.name}", field.annotation)


ALL = [each for name, annotation in TABLES.items() for each in declared(name, annotation)]


def page_table() -> str:
    rows = ["| setting | default | before it | |", "|---|---|---|---|"]
    for key, field in ALL:
        mark = setting.of(field.annotation)
        usual = field.default
        value = (
            template.toml(msgspec.to_builtins(usual))
            if usual not in (None, msgspec.NODEFAULT)
            else ""
        )
        shown = f"`{value}`" if value else ("must be given" if usual is msgspec.NODEFAULT else "")
        before = ", ".join(f"`{each}`" for each in (mark.option, mark.variable) if each)
        text = field.text.replace("|", "\\|")
        rows.append(f"| `{key}` | {shown} | {before} | {text} |")
    return "\n".join(rows)


def test_the_table_of_the_page_is_that_of_the_code() -> None:
    text = PAGE.read_text()
    block = r"(<!-- config -->\n).*?(<!-- end -->)"
    wanted = re.sub(block, lambda found: f"{found[1]}{page_table()}\n{found[2]}", text, flags=re.S)
    if os.environ.get("STOKER_GOLDEN") == "rewrite":
        PAGE.write_text(wanted)
    assert text == wanted


def test_every_setting_is_described_in_a_sentence() -> None:
    assert len(ALL) > 60
    assert [key for key, field in ALL if not field.text.endswith(".")] == []


def test_each_option_of_up_is_a_setting_and_each_option_named_there_exists() -> None:
    options = {word for each in up_command.params for word in each.opts if word.startswith("--")}
    named = {setting.of(field.annotation).option for _, field in ALL} - {""}
    assert named == options - OF_ONE_CALL


def test_each_check_is_of_a_table_that_exists() -> None:
    assert set(CHECKS) <= set(TABLES)


def test_limits_have_the_descriptions_of_the_core() -> None:
    told = {key: field.text for key, field in ALL if key.startswith("limits.")}
    assert told["limits.queues"] == "The most queues besides queue 0."
