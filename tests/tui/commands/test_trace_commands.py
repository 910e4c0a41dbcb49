# SPDX-License-Identifier: Apache-2.0
"""`stoker trace` without a node: combinations of options, and the text about a job's tracing."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from stoker.mesh.wire import schema
from stoker.tui.commands import trace_commands


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--status", "--for", "5s"], "no other option"),
        (["--status", "--file", "x"], "no other option"),
        (["-o", "x.perfetto-trace"], "The file to write is --file FILE."),
        (["--mode", "full", "--file", "x"], "writes no file"),
        (["--for", "soon"], "not a time"),
        (["--for", "0s"], "not between"),
        (["--mode", "off"], "off"),
    ],
)
def test_options_that_contradict_each_other_are_refused(words: list[str], said: str) -> None:
    result = CliRunner().invoke(trace_commands.trace_command, ["7", *words])
    assert result.exit_code != 0
    assert said in f"{result.output}{result.exception}"


def view(**fields: object) -> schema.TracingView:
    whole = {"job": 7, "node": "n", "mode": "governed", "wanted": "governed", "budget_ppm": 10_000}
    return schema.TracingView(**{**whole, **fields})  # type: ignore[arg-type]


def test_how_a_job_is_traced_is_told_in_words() -> None:
    assert trace_commands.lines(view()) == [
        "job 7 on n: governed, budget 1 % of its time",
        "no process has a tracer yet",
    ]
    window = schema.WindowView(
        window=3, state="open", mode="full", seconds=5.0, by="alice", from_ns=1
    )
    tracers = (
        schema.TracerView(pid=12, tracer="opencl", mode="full", switches=3, switches_late=1),
        schema.TracerView(pid=13, tracer="cupti SIM", mode="dormant", holder="nsys", pinned=2),
    )
    told = trace_commands.lines(
        view(wanted="full", reason="too dear", window=window, tracers=tracers)
    )
    assert told[1:] == [
        "now full",
        "governor: too dear",
        "window of 5 s by alice: open",
        "process 12: opencl full (3 switches, 1 put off)",
        "process 13: cupti SIM dormant (held by nsys, 2 queues cannot be switched)",
    ]
