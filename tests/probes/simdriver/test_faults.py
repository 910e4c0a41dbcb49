# SPDX-License-Identifier: Apache-2.0
"""Scripts of faults are read as they say, and what is wrong in them is told."""

from __future__ import annotations

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
        ('[[fault]]\nkind = "xid"\nat_s = -2', "negative"),
        ('[[fault]]\nkind = "xid"\nat_s = inf', "fault 1"),
        ("other = 1", "other"),
        ('[[fault]]\nkind = "xid"\n' * 65, "65"),
    ],
)
def test_what_is_wrong_is_told(script: str, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        faults.parse(script)
