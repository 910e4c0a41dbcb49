# SPDX-License-Identifier: Apache-2.0
"""The catalogue of host probes and the page that shows it to operators."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.probes.catalogue import HOST_PROBES, all_states
from stoker.probes.host.host_probes import HostProbes

PAGE = Path(__file__).parents[2] / "docs/operator/host-probes.md"


def test_ids_are_stable_names() -> None:
    ids = [probe.id for probe in HOST_PROBES]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"host\.[a-z]+\.[a-z_]+", id) for id in ids)


def test_the_page_shows_every_probe() -> None:
    lines = PAGE.read_text().splitlines()
    shown = [line.split("|") for line in lines if line.startswith("| `host.")]
    assert [(line[1].strip(" `"), line[2].strip(), line[4].strip()) for line in shown] == [
        (probe.id, probe.gives, probe.needs) for probe in HOST_PROBES
    ]


@pytest.mark.needs_bpf
def test_the_page_names_every_loss(attach: Callable[..., HostProbes]) -> None:
    losses = PAGE.read_text().split("## Losses")[1]
    named = set(re.findall(r"`(host\.[a-z_]+)`", losses))
    assert set(attach().dropped()) == named


def test_one_answer_for_all() -> None:
    states = all_states("unknown", "closed")
    assert [state.id for state in states] == [probe.id for probe in HOST_PROBES]
    assert {(state.state, state.reason) for state in states} == {("unknown", "closed")}
