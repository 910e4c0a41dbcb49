# SPDX-License-Identifier: Apache-2.0
"""`stoker bench log` with real brokers and a real scheduler: one object, or a table."""

from __future__ import annotations

import json

from click.testing import CliRunner, Result

from stoker.tui.bench import log
from stoker.tui.bench.leader_submits import LeaderRow
from stoker.tui.bench.log_appends import AppendRow
from stoker.tui.bench.scheduler_reads import ReadRow
from stoker.tui.commands.bench_commands import bench_command

QUICK = ("--rounds", "1", "--appends", "10", "--submits", "100", "--reads", "10")


def run(*words: str) -> Result:
    return CliRunner().invoke(bench_command, ["log", *words])


def test_one_object() -> None:
    done = run("--json", *QUICK)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["bench"], told["commands_per_entry"], told["command_bytes"]) == ("log", 64, 256)
    assert [row["replicas"] for row in told["rows"]] == [1, 3]
    for row in told["rows"]:
        assert row["appends"] == 20
        assert row["entry_bytes"] > 64 * 256
        assert row["commands_per_s"] == 64 * row["appends_per_s"]
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["ratio"] == row["appends_per_s"] / row["raw_per_s"]
    assert told["leader"]["submits"] == 100
    assert len(told["leader"]["rounds_per_s"]) == 1
    assert [row["kind"] for row in told["reads"]] == ["leader", "follower", "follower, stale"]
    assert all(row["reads"] == 10 and 0 < row["p50_ms"] <= row["p99_ms"] for row in told["reads"])
    assert "CPUs" in told["cpu"]


def test_a_table() -> None:
    row = AppendRow(
        replicas=3, appends=20, entry_bytes=16_519, appends_per_s=700.0, commands_per_s=44_800.0,
        p50_ms=1.25, p99_ms=2.5, raw_per_s=800.0, raw_p50_ms=1.0, raw_p99_ms=2.0, ratio=0.875,
    )  # fmt: skip
    leader = LeaderRow(
        submits=100, in_flight=128, submits_per_s=7500.0, rounds_per_s=(7500.0,),
        leader_cpu_us=100.0, broker_cpu_us=40.0, client_cpu_us=20.0, leader_limit_per_s=10_000.0,
    )  # fmt: skip
    read = ReadRow(
        kind="follower", reads=30, p50_ms=2.5, p99_ms=4.25, ratio=2.0, added_p50_ms=1.25
    )  # fmt: skip
    result = log.LogResult(rows=(row,), leader=leader, reads=(read,), cpu="a CPU")
    lines = log.text(result).splitlines()
    assert lines[0].startswith("entries of 64 commands of 256 B")
    wanted = "3 700 44800 1.25 ms 2.50 ms 800 1.00 ms 2.00 ms 0.88"
    assert lines[2].split() == wanted.split()
    assert lines[3] == "one leader: 7500 submits/s, 128 in flight"
    assert "leader 100 us (at most 10000/s on one core)" in lines[4]
    assert lines[7].split() == ["follower", "30", "2.50", "ms", "4.25", "ms", "2.00"]
