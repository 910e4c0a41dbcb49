# SPDX-License-Identifier: Apache-2.0
"""The text of a new config.toml: it changes nothing, and its lines are the settings."""

from __future__ import annotations

import re
import tomllib

from stoker.agent.config import faults, template


def test_the_text_changes_nothing_and_has_no_fault() -> None:
    tables, found = faults.parse(template.text().encode())
    assert found == []
    assert all(table == {} for table in tables.values())


def test_every_line_that_has_a_value_is_a_setting_with_its_default() -> None:
    lines = [re.sub(r"^# (?=\w+ = |\[)", "", line) for line in template.text().splitlines()]
    text = "\n".join(line for line in lines if not line.endswith(" ="))
    text = text.replace("[[device]]", '[[device]]\nid = "a"')
    text = text.replace('[models."NAME"]', '[models."NAME"]\nidle_w = 1\nfull_w = 2')
    alert = '[[alert]]\nname = "a"\nmetric = "hw.power"\nabove = 1.0'
    text = text.replace("[[alert]]", alert)
    _, found = faults.parse(text.encode())
    assert [each.at("template") for each in found] == []
    assert tomllib.loads(text)["retention"]["jobs"] == 10_000


def test_lines_fit_a_page() -> None:
    assert max(map(len, template.text().splitlines())) <= 100


def test_values_are_spelled_as_toml() -> None:
    value = {"a b": [1, "x"], "c": True, "d": 0.5, "e": {}}
    assert tomllib.loads(f"v = {template.toml(value)}") == {"v": value}
