# SPDX-License-Identifier: Apache-2.0
"""Many nodes on one machine: the arithmetic of their costs, and a small run of it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from product_node import STOKER

from stoker.native.errors import StokerError
from stoker.tui.bench import scale
from stoker.tui.bench.scale import ProcessUse
from stoker.tui.commands.bench_commands import bench_scale_command

S = 10**9


def test_costs_are_means_by_program_and_sums_by_host() -> None:
    before = [
        {1: ProcessUse("agent", 1024, 0), 2: ProcessUse("spawner", 512, 0)},
        {3: ProcessUse("agent", 1024, S), 9: ProcessUse("children", 1, 0)},
    ]
    after = [
        {1: ProcessUse("agent", 2048, S // 10), 2: ProcessUse("spawner", 512, 0)},
        {3: ProcessUse("agent", 4096, S + 3 * S // 10), 8: ProcessUse("children", 1, 0)},
    ]
    found = scale.costs(before, after, took_s=10.0)
    assert found["agent"] == {"pss_mib": 3.0, "cpu_percent": 2.0, "cpu_percent_max": 3.0}
    assert found["all"]["pss_mib"] == (2.5 + 4.0) / 2, "one that came or went is in neither"
    assert set(found) == {"agent", "spawner", "all"}


def test_lateness_is_that_of_the_pauses_of_each_node() -> None:
    beats = {"a": [0, S, 2 * S + 30_000_000], "b": [S // 2, 3 * S // 2], "c": [7]}
    assert scale.late_ms(beats) == pytest.approx({"p50": 0, "p95": 30, "p99": 30, "max": 30})
    assert scale.late_ms({}) == {}


@pytest.mark.parametrize("nodes", ["", "0", "many", "4,900"])
def test_numbers_that_cannot_be_are_refused(nodes: str) -> None:
    told = CliRunner().invoke(bench_scale_command, ["--nodes", nodes])
    assert told.exit_code == 2 and "--nodes takes numbers from 1 to 240" in told.output


@pytest.mark.parametrize("measured", [0, 2])
def test_a_size_that_cannot_be_reached_loses_nothing_of_those_before(
    monkeypatch: pytest.MonkeyPatch, measured: int
) -> None:
    def steps(*_: Any) -> Iterator[dict[str, Any]]:
        yield from ({"nodes": count} for count in range(1, measured + 1))
        raise StokerError("n003 did not start")

    hosts = SimpleNamespace(enter=lambda: None, made=lambda *_, **__: contextlib.nullcontext([]))
    monkeypatch.setattr(scale, "network_hosts", hosts)
    monkeypatch.setattr(scale, "_steps", steps)
    monkeypatch.setattr(scale, "step_lines", lambda step: [f"{step['nodes']} nodes"])
    if not measured:
        with pytest.raises(StokerError, match="n003"):
            scale.measure([1], 1.0, print)
        return
    told: list[str] = []
    result, left = scale.measure([1, 2, 3], 1.0, told.append)
    assert [step["nodes"] for step in result["steps"]] == [1, 2]
    assert told == ["1 nodes", "2 nodes"], "what an interruption would lose"
    assert left == ["measured up to 2 nodes: n003 did not start"]


def test_a_node_that_does_not_end_keeps_no_other_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def host(name: str) -> Any:
        def stoker(verb: str) -> None:
            if name == "n2":
                raise StokerError("n2 hangs")
            ended.append(f"{verb} {name}")

        return SimpleNamespace(name=name, state=tmp_path, stoker=stoker)

    monkeypatch.setattr(scale.private_node, "leftovers", lambda state: iter(()))
    assert scale._end([host(name) for name in ("n1", "n2", "n3")]) == ["n2 hangs"]
    assert sorted(ended) == ["down n1", "down n3"]


@pytest.mark.soak
@pytest.mark.needs_root
def test_each_size_is_measured() -> None:
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    done = subprocess.run(
        [STOKER, "bench", "scale", "--nodes", "1,2", "--seconds", "5", "--json"],
        capture_output=True, cwd="/", timeout=600, check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["sim"] is True
    for step, count in zip(found["steps"], (1, 2), strict=True):
        assert (step["nodes"], step["devices"]) == (count, 8 * count)
        assert step["node"]["agent"]["cpu_percent"] > 0 < step["head"]["scheduler"]["pss_mib"]
        assert {"agent", "spawner", "watchdog", "supervisor", "all"} <= set(step["node"])
        assert step["observations_per_s"] > count / 2
    assert "2 nodes, 16 devices" in scale.text(found)
