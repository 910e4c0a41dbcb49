# SPDX-License-Identifier: Apache-2.0
"""Scripts of faults are read as they say, and what is wrong in them is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.native.errors import BadRequest
from stoker.probes.simdriver import faults, profiles

SCRIPT = """
[[fault]]
kind = "xid"
card = 2
at_s = 1.5
until_s = 2
value = 79
count = 3

[[fault]]
kind = "lost"
call = "Power"
"""


def test_a_script_is_what_it_says() -> None:
    assert faults.parse(SCRIPT) == [
        faults.Fault("xid", 2, 1_500_000_000, 2_000_000_000, 79, 3, ""),
        faults.Fault("lost", -1, 0, 0, 0, 0, "Power"),
    ]
    assert faults.parse("") == []


def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.toml"
    path.write_text(SCRIPT)
    assert faults.read(path) == faults.parse(SCRIPT)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadRequest, match="no text"):
        faults.read(path)
    with pytest.raises(BadRequest, match="No such file"):
        faults.read(tmp_path / "none")


def test_a_missing_function_is_no_matter_of_the_node() -> None:
    script = faults.parse('[[fault]]\nkind = "missing"\ncall = "PowerUsage"')
    node = profiles.node("8xH200")
    faults.inject(node, script)
    assert faults.missing(script) == ["PowerUsage"]
    assert faults.missing(faults.parse(SCRIPT)) == []


def test_it_befalls_the_node() -> None:
    node = profiles.node("8xH200")
    faults.inject(node, faults.parse(SCRIPT)[:1])
    node.advance(3 * 10**9)
    assert [(event["card"], event["value"]) for event in node.events()] == [(2, 79)] * 3
    with pytest.raises(BadRequest, match="no card 8"):
        faults.inject(node, [faults.Fault("lost", 8)])


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("[[fault", "script of faults"),
        ('[[fault]]\nkind = "rust"', "rust"),
        ("[[fault]]\ncard = 1", "None"),
        ('[[fault]]\nkind = "xid"\ncolour = 1', "colour"),
        ('[[fault]]\nkind = "xid"\nvalue = "many"', "fault 1"),
        ('[[fault]]\nkind = "xid"\nat_s = 2\nuntil_s = 1', "before"),
        ('[[fault]]\nkind = "xid"\nat_s = -2', "at_s = -2"),
        ('[[fault]]\nkind = "xid"\nat_s = 1e300', "at_s = 1e"),
        ('[[fault]]\nkind = "xid"\nuntil_s = true', "until_s = True"),
        ('[[fault]]\nkind = "xid"\ncard = -3', "card = -3"),
        ('[[fault]]\nkind = "xid"\nvalue = 1.5', "value = 1.5"),
        ('[[fault]]\nkind = "xid"\nvalue = 99999999999999999999', "value = 9"),
        ('[[fault]]\nkind = "xid"\ncount = -1', "count = -1"),
        ('[[fault]]\nkind = "hang"\ncall = 5', "call = 5"),
        ('[[fault]]\nkind = ["xid"]', "none of"),
        (f'[[fault]]\nkind = "hang"\ncall = "{"x" * 48}"', "47 bytes"),
        ('[[fault]]\nkind = "missing"', "wants `call`"),
        ('[[fault]]\nkind = "missing"\ncall = ""', "wants `call`"),
        ('[[fault]]\nkind = "missing"\ncall = "nvml"\nat_s = 1', "alone"),
        ("fault = 3", "each fault begins"),
        ("fault = [1]", "each fault begins"),
        ('[[fault]]\nkind = "xid"\nat_s = inf', "fault 1"),
        ("other = 1", "other"),
        ('[[fault]]\nkind = "xid"\n' * 65, "65"),
    ],
)
def test_what_is_wrong_is_told(script: str, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        faults.parse(script)
