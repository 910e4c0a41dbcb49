# SPDX-License-Identifier: Apache-2.0
"""Faults of config.toml: one line each with place, fault and remedy; secrets are in none."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.config import faults
from stoker.native.errors import BadRequest


def said(text: str) -> list[str]:
    return [each.at("config.toml") for each in faults.parse(text.encode())[1]]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[retentoin]\n", "1: retentoin is no table of settings: perhaps retention is meant"),
        ("[retention]\nbites = 1\n", "2: retention.bites is no setting: perhaps bytes is meant"),
        (
            "[requests]\nsigned = true\n",
            "2: requests.signed is no setting: known are require_signature",
        ),
        (
            '[retention]\njobs = "many"\n',
            '2: retention.jobs is "many": it must be a whole number',
        ),
        ("[retention]\nbytes = -1\n", "2: retention.bytes is -1: it must be a whole number >= 0"),
        ("[up]\nport = 70000\n", "2: up.port is 70000: it must be a whole number <= 65535"),
        ("[up]\nroot_jobs_as = 3\n", "2: up.root_jobs_as is 3: it must be text in quotes"),
        ("retention = 3\n", "1: retention is 3: it must be a table"),
        ("[device]\nid = 'a'\n", '1: device is {"id": "a"}: it must be a list in [ ]'),
        ("[[device]]\nmodel = 'a'\n", "1: device[1] has no id: it must have one"),
        (
            "[[device]]\nid = 'a'\n[[device]]\nid = 'b'\nvendr = 'c'\n",
            "5: device[2].vendr is no setting: perhaps vendor is meant",
        ),
        (
            '[otlp]\ntemporality = "dleta"\n',
            '2: otlp.temporality is "dleta": say "cumulative" or "delta" or "lowmemory"',
        ),
        (
            "[recording]\nage_s = 3\n",
            "2: recording.age_s is 3, and the least is 60",
        ),
        (
            '[metrics]\nlisten = "here"\n',
            "1: metrics is wrong: metrics address 'here' has no port:"
            " say ADDRESS:PORT, PORT or off",
        ),
        ("[budgets]\nwaiters = 0\n", "2: budgets.waiters is 0, from 1 to 1099511627776"),
        (
            "[power.cards.a]\nat_mots_w = 3\n",
            "2: power.cards.a.at_mots_w is no setting: perhaps at_most_w is meant",
        ),
        ("[limits]\nnodes = 0\n", "2: limits.nodes is 0: it must be a whole number >= 1"),
        ("a = \n", "1: it is not TOML: Invalid value at column 5"),
    ],
)
def test_each_fault_is_one_line(text: str, line: str) -> None:
    assert said(text) == [f"config.toml:{line}"]


def test_all_faults_are_told_at_once_in_the_order_of_the_file() -> None:
    text = "[up]\nport = 0\n[node]\nlabel = []\nrank_cordon = 1\n"
    assert [each.partition(" ")[0] for each in said(text)] == [
        "config.toml:2:",
        "config.toml:4:",
        "config.toml:5:",
    ]


def test_a_value_of_a_secret_setting_is_in_no_fault() -> None:
    text = (
        "[otlp]\nheaders = { Authorization = 31337 }\n"
        'endpoint = "https://user:31337@/v1?key=31337"\n'
    )
    (one,) = said(text)
    assert one == "config.toml:2: otlp.headers.Authorization is (hidden): it must be text in quotes"
    (one,) = said('[otlp]\nendpoint = "ftp://user:31337@host/v1?key=31337"\n')
    assert "31337" not in one
    assert "ftp://(hidden)@host/v1?(hidden)" in one


def test_a_text_that_is_not_utf8_says_where() -> None:
    tables, found = faults.parse(b"a = '\xff'")
    assert (tables, [each.text for each in found]) == ({}, ["it is not UTF-8: byte 5 is 0xff"])


def test_no_file_has_no_fault_and_a_folder_is_refused(tmp_path: Path) -> None:
    assert faults.read(tmp_path / "config.toml") == ({}, [])
    with pytest.raises(BadRequest, match="directory"):
        faults.read(tmp_path)


def test_a_long_value_is_cut_and_a_large_file_refused(tmp_path: Path) -> None:
    (one,) = said(f"[retention]\njobs = '{'x' * 500}'\n")
    assert len(one) < 140
    (tmp_path / "big").write_bytes(b"#" * (faults.BYTES_MAX + 1))
    with pytest.raises(BadRequest, match="more than 1 MiB"):
        faults.read(tmp_path / "big")
